"""Is all well, and what is left over: ``doctor`` and ``cleanup``.

Read ``doctor`` first.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

import click

from broker.cli import exits, words
from broker.cli.arguments import DURATION
from broker.cli.checks import Check
from broker.cli.following import ask, short
from broker.cli.session import Session
from broker.cli.trying import Trial, trial
from broker.cli.verbs import verb
from broker.sdk.errors import BrokerError, Unreachable
from broker.sdk.quantities import size_text
from broker.v1 import checkpoint_pb2, region_pb2, run_pb2

CLOCK_OFF_S = 60.0  # from here on "3m ago" misleads
LEFT_MAX = 500


@verb(
    example="""
    broker doctor
    broker doctor --try us-east4
    """
)
@click.option("--try", "where", metavar="REGION", help="Send a small gang through it, too.")
@click.option("--image", default="", help="For --try, where a region runs images only.")
@click.option("--within", type=DURATION, default="10m", show_default=True, help="For --try.")
def doctor(session: Session, *, where: str | None, image: str, within: float) -> int:
    """Check everything from here to the regions; exit with 4 when something is not as it should.

    It looks at the settings, the broker, its log, and each region's clusters and store; clusters
    of Kubernetes are asked what they serve and what the broker may do there. --try submits a run
    of one accelerator, waits for its end, and says what became of it.
    """
    wish = Trial(where=where, image=image, within_s=within) if where else None
    checks: list[Check] = []
    for check in _all_checks(session, wish):
        checks.append(check)
        if not session.is_json:
            _tell(session, check)
    if session.is_json:
        session.show_json({"checks": [asdict(check) for check in checks]})
    return exits.OK if all(check.is_well for check in checks) else exits.REFUSED


def _tell(session: Session, check: Check) -> None:
    mark = "ok" if check.is_well else "!!"
    if words.width() is not None:
        mark = click.style(mark, fg="green" if check.is_well else "red")
    session.say(f"{mark}  {check.what}: {check.said}")


def _all_checks(session: Session, wish: Trial | None) -> Iterator[Check]:
    yield from _checks(session)
    if wish is not None:
        with suppress(Unreachable):  # it was said already
            yield from trial(session, wish)


def _checks(session: Session) -> Iterator[Check]:
    settings = session.settings
    yield Check(
        what="settings",
        is_well=True,
        said=f"{settings.server} (from {settings.source}), team {settings.team}, user"
        f" {settings.user}",
    )
    git = shutil.which("git")
    yield Check(
        what="git",
        is_well=True,
        said=git or "not there; a working directory is packed by its .gitignore alone",
    )
    try:
        yield from _broker_checks(session)
        found = session.client.regions.find()
    except Unreachable as error:
        yield Check(what="broker", is_well=False, said=f"{error.message}; start it with brokerd")
        return
    except BrokerError as error:
        yield Check(what="broker", is_well=False, said=error.message)
        return
    for region in found.regions:
        yield from region_checks(region, session.now_s)
        yield from _asked(session, region)
    if not found.regions:
        yield Check(what="regions", is_well=False, said="the broker was told of none")


def _broker_checks(session: Session) -> Iterator[Check]:
    broker = session.client.teams.broker()
    yield Check(
        what="broker",
        is_well=True,
        said=f"version {broker.code_version}, up for"
        f" {words.span(session.now_s - words.wall_s(broker.start_time))}, incarnation"
        f" {broker.incarnation}, {words.counted(broker.active_runs, 'active run')}",
    )
    ahead_s = words.wall_s(broker.start_time) - session.now_s
    if ahead_s > CLOCK_OFF_S:
        said = f"the broker's clock is at least {words.span(ahead_s)} ahead of this machine's"
        yield Check(what="clock", is_well=False, said=said)
    for region in broker.unseen_regions:
        yield Check(
            what=region,
            is_well=False,
            said="not seen since the restore, so nothing is granted; broker regions waive"
            f" {region} goes on without",
        )
    for warning in warnings_of(broker.warnings):
        yield Check(what="broker", is_well=False, said=warning)


def warnings_of(warnings: Iterable[str]) -> list[str]:
    """Return the broker's warnings but for those of regions, whose own checks tell of them."""
    return [warning for warning in warnings if not warning.startswith("regions/")]


def region_checks(region: region_pb2.Region, now_s: float) -> Iterator[Check]:
    """Yield what there is to say of a region that is not open, and of each of its clusters."""
    name = words.id_of(region.name)
    if region.state != region_pb2.REGION_STATE_OPEN:
        why = f": {region.message}" if region.message else ""
        yield Check(what=name, is_well=True, said=f"{words.kind(region, 'state')} by ops{why}")
    for cluster in region.clusters:
        troubles = list(cluster.blind)
        if cluster.silence_message:
            troubles.append(cluster.silence_message)
        elif cluster.not_configured:
            troubles.append("is not configured any more, and runs are left there")
        elif not cluster.store_reachable:
            troubles.append(region.store_message or "its store is not believed")
        troubles.extend(f"unknown {one.object}: {one.message}" for one in cluster.orphans)
        # What is not believed of a store stands among what the cluster could not see, too.
        troubles = list(dict.fromkeys(troubles))
        seen = "never seen"
        if cluster.HasField("seen_time"):
            last = "seen" if cluster.reachable else "last seen"
            seen = f"{last} {words.ago(cluster.seen_time, now_s)}"
        yield Check(
            what=f"{name}/{cluster.cluster}",
            is_well=not troubles,
            said=f"{'; '.join(troubles)} ({seen})" if troubles else f"answers, {seen}",
        )
        for note in cluster.notes:
            yield Check(what=f"{name}/{cluster.cluster}", is_well=False, said=note)


def _asked(session: Session, region: region_pb2.Region) -> Iterator[Check]:
    """Yield what the region's clusters say of themselves; what was said already is left out."""
    name = words.id_of(region.name)
    if not any(each.reachable for each in region.clusters):
        return
    silent = {each.cluster for each in region.clusters if not each.store_reachable}
    try:
        found = session.client.regions.check(name).checks
    except BrokerError as error:
        yield Check(what=name, is_well=True, said=f"its clusters were not asked: {error.message}")
        return
    for each in found:
        if each.subject == "store" and not each.well and each.cluster in silent:
            continue
        remedy = f"; {each.remedy}" if each.remedy else ""
        where = f"{name}/{each.cluster}" if each.cluster else name
        yield Check(
            what=f"{where} {each.subject}",
            is_well=each.well,
            said=f"{each.message}{remedy}",
        )


# ---- cleanup ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that is left over, and what lets go of it."""

    kind: str
    what: str
    said: str


@verb(
    example="""
    broker cleanup
    broker cleanup --unpin --yes
    """
)
@click.option("--unpin", is_flag=True, help="Unpin the checkpoints of runs that ended.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def cleanup(session: Session, *, unpin: bool, yes: bool) -> int:
    """Show what is left over: unknown things in clusters, gangs that may still cost, pinned files.

    The broker lets go of what is provably its own and over. What it does not know is shown, and
    removed by whoever knows it, never on a guess.
    """
    runs = session.client.runs.find(session.team, query="state = ENDED", limit=LEFT_MAX).runs
    pinned = [(run, one) for run in runs for one in _pinned(session, run)]
    left = [*_strangers(session), *_lingering(session, runs), *_storage(pinned)]
    if session.is_json:
        session.show_json({"left": [asdict(one) for one in left]})
    elif left:
        session.say(
            words.table(("WHAT", "WHICH", "SAID"), [(x.kind, x.what, x.said) for x in left])
        )
    else:
        session.say("nothing is left over")
    if unpin and pinned:
        ask(f"Unpin {words.counted(len(pinned), 'checkpoint')} of ended runs?", is_sure=yes)
        for run, one in pinned:
            session.client.runs.mark(run.name, step=one.step, pinned=False)
        session.note(f"unpinned {words.counted(len(pinned), 'checkpoint')}")
    return exits.OK


def _strangers(session: Session) -> Iterator[Left]:
    for region in session.client.regions.find().regions:
        for cluster in region.clusters:
            for orphan in cluster.orphans:
                which = f"{words.id_of(region.name)}/{cluster.cluster}: {orphan.object}"
                yield Left(kind="unknown", what=which, said=orphan.message)


def _lingering(session: Session, runs: Iterable[run_pb2.Run]) -> Iterator[Left]:
    for run in runs:
        if run.placements:
            said = f"ended, and {words.counted(len(run.placements), 'placement')} not gone yet"
            yield Left(kind="leaving", what=short(run.name), said=said)
        if any(epoch.fence_owed for epoch in session.client.runs.get(run.name).epochs):
            said = "ended, and a gang that could not be reached may still run and cost"
            yield Left(kind="unheard", what=short(run.name), said=said)


def _pinned(session: Session, run: run_pb2.Run) -> list[checkpoint_pb2.Checkpoint]:
    if not run.HasField("last_checkpoint"):
        return []
    return [one for one in session.client.runs.checkpoints(run.name) if one.pinned]


def _storage(
    pinned: list[tuple[run_pb2.Run, checkpoint_pb2.Checkpoint]],
) -> Iterator[Left]:
    for run, one in pinned:
        said = f"{size_text(one.size_bytes * max(1, len(one.regions)))} pinned; --unpin lets go"
        yield Left(kind="pinned", what=f"{short(run.name)} step {one.step}", said=said)
