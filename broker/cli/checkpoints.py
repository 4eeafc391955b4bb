"""Checkpoints of a run and the copies of them.

Read ``listing`` first.
"""

from pathlib import Path

import click

from broker.cli import words
from broker.cli.arguments import REGION, RUN, Whole
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.sdk.errors import Damaged
from broker.sdk.quantities import size_text
from broker.sdk.streams import Fetch
from broker.v1 import checkpoint_pb2, run_service_pb2

HEADERS = ("STEP", "START", "SIZE", "WRITTEN", "COUNTS", "MARKS", "REGIONS")
REFUSED = ("STEP", "START", "SEEN", "REGION", "WHY")
REPLICAS = ("REGION", "STEP", "BEHIND", "TO COPY", "OLDER BY", "ON ITS WAY", "COST", "SAID")


@verb(example="broker replicas digits")
@click.argument("run", type=RUN)
def replicas(session: Session, run: str) -> None:
    """Say for each region how far it is behind RUN's newest complete checkpoint."""
    found = session.client.runs.replicas(session.run_name(run))
    if session.is_json:
        session.show_json(found)
        return
    if not found.HasField("newest_step"):
        session.say("no checkpoint is complete yet")
        return
    session.say(f"the newest complete step is {found.newest_step}")
    session.say(words.table(REPLICAS, [_replica(one) for one in found.replicas]))
    if found.unreachable:
        session.note(f"no answer from {', '.join(found.unreachable)}: what is said there is old")


def _replica(one: checkpoint_pb2.Replica) -> tuple[str, ...]:
    has_step = one.HasField("step")
    coming = "-"
    if one.HasField("copying_step"):
        share = 100 * one.copied_bytes // max(1, one.copying_bytes)
        coming = f"step {one.copying_step}, {share}%"
        if one.HasField("left"):
            rate = size_text(round(one.bytes_per_second))
            coming += f", {words.span_of(one.left)} left at {rate}/s"
    return (
        one.region,
        str(one.step) if has_step else "none",
        words.counted(one.behind_steps, "step") if has_step and one.behind_steps else "-",
        size_text(one.behind_bytes) if one.behind_bytes else "-",
        words.span_of(one.behind) if one.HasField("behind") and one.behind_steps else "-",
        coming,
        words.dollars(one.cost) if one.HasField("cost") else "-",
        one.message,
    )


@click.group(cls=Family, default="list", name="checkpoints", example="broker checkpoints digits")
def checkpoints() -> None:
    """List, mark, pin, label and fetch checkpoints: broker checkpoints RUN lists them."""


@verb(name="list", example="broker checkpoints digits")
@click.argument("run", type=RUN)
def listing(session: Session, run: str) -> None:
    """List the complete checkpoints of RUN, newest first, and what it saved that is none."""
    name = session.run_name(run)
    found = session.client.runs.checkpoints(name)
    refused = session.client.runs.refused_checkpoints(name)
    if session.is_json:
        whole = run_service_pb2.ListCheckpointsResponse(checkpoints=found, refused=refused)
        session.show_json(whole)
        return
    if found:
        session.say(words.table(HEADERS, [_checkpoint(one, session.now_s) for one in found]))
    else:
        session.say("no checkpoint is complete yet")
    if refused:
        session.say("\nno checkpoints, though their markers say so:")
        session.say(words.table(REFUSED, [_refused(one, session.now_s) for one in refused]))


def _refused(one: checkpoint_pb2.RefusedCheckpoint, now_s: float) -> tuple[str, ...]:
    return str(one.step), str(one.epoch), words.ago(one.refuse_time, now_s), one.region, one.message


def _checkpoint(one: checkpoint_pb2.Checkpoint, now_s: float) -> tuple[str, ...]:
    marks = [mark for mark, is_set in (("bad", one.bad), ("pinned", one.pinned)) if is_set]
    marks += [f"begins {words.id_of(fork)}" for fork in one.forks]
    return (
        str(one.step),
        str(one.epoch),
        size_text(one.size_bytes),
        words.ago(one.write_time, now_s),
        "no" if one.bad else "yes" if one.sealed else "once its start is closed",
        ", ".join([*marks, *([f'"{one.label}"'] if one.label else [])]) or "-",
        ", ".join(one.regions) or "-",
    )


@verb(
    example="""
    broker checkpoints mark digits 1200 --bad
    broker checkpoints mark digits 1200 --good
    """
)
@click.argument("run", type=RUN)
@click.argument("step", type=Whole(min=0))
@click.option("--bad/--good", "is_bad", default=True, help="Bad is meant when neither is said.")
def mark(session: Session, run: str, *, step: int, is_bad: bool) -> None:
    """Mark the checkpoint of STEP bad. It is resumed from no more; a start from it is stopped."""
    name = session.run_name(run)
    _show(session, session.client.runs.mark(name, step=step, bad=is_bad))


@verb(
    example="""
    broker checkpoints pin digits 1200
    broker checkpoints pin digits 1200 --off
    """
)
@click.argument("run", type=RUN)
@click.argument("step", type=Whole(min=0))
@click.option("--off", is_flag=True, help="Let retention have it again.")
def pin(session: Session, run: str, *, step: int, off: bool) -> None:
    """Keep the checkpoint of STEP until somebody unpins it."""
    name = session.run_name(run)
    _show(session, session.client.runs.mark(name, step=step, pinned=not off))


@verb(example='broker checkpoints label digits 1200 "before the spike"')
@click.argument("run", type=RUN)
@click.argument("step", type=Whole(min=0))
@click.argument("word")
def label(session: Session, run: str, *, step: int, word: str) -> None:
    """Give the checkpoint of STEP a WORD of your own; an empty one takes it away."""
    name = session.run_name(run)
    _show(session, session.client.runs.mark(name, step=step, label=word))


def _show(session: Session, found: checkpoint_pb2.Checkpoint) -> None:
    if session.is_json:
        session.show_json(found)
    else:
        session.say(words.table(HEADERS, [_checkpoint(found, session.now_s)]))


@verb(
    example="""
    broker checkpoints fetch digits --step 1200 --to ./step-1200
    broker checkpoints fetch digits --where
    """
)
@click.argument("run", type=RUN)
@click.option("--step", type=Whole(min=0), help="Otherwise the newest that is not bad.")
@click.option("--region", type=REGION, help="Where to read it; otherwise any region that answers.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="A folder that is not there.")
@click.option("--where", is_flag=True, help="Only say where it is on this machine, if it is.")
def fetch(
    session: Session,
    run: str,
    *,
    step: int | None,
    region: str | None,
    target: Path | None,
    where: bool,
) -> None:
    """Bring a checkpoint of RUN here, its checksums verified."""
    from broker.cli.fetching import receive

    name = session.run_name(run)
    stream = Fetch(name, step=step, region=region or "", local_path=where)
    parts = session.client.follow(stream)
    found = next(parts, None)
    if not isinstance(found, checkpoint_pb2.Checkpoint):
        raise Damaged("the broker did not say which checkpoint it sends")
    if where:
        path = next(parts, None)
        if not isinstance(path, str):
            raise click.UsageError("its store is not on this machine: fetch it with --to FOLDER")
        session.show_json({"path": path}) if session.is_json else session.say(path)
        return
    folder = target or Path(f"{words.id_of(name)}-step-{found.step}")
    count, size = receive(parts, folder)
    if session.is_json:
        session.show_json({"path": str(folder), "files": count, "size_bytes": size})
    else:
        session.say(f"{folder}: {words.counted(count, 'file')}, {size_text(size)}, verified")


for _one in (listing, mark, pin, label, fetch):
    checkpoints.add_command(_one)
