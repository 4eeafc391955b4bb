"""``broker doctor --try``: a small gang through the whole way, in one region.

The rule: it is a run as any other, pinned to the region; whatever becomes of it, it is told, and
nothing of it is left waiting. Read ``trial`` first.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from broker.cli import words
from broker.cli.checks import Check
from broker.cli.following import short
from broker.cli.session import Session
from broker.cli.status import has_ended
from broker.sdk.errors import BrokerError, NotFound
from broker.v1 import intent_pb2, region_pb2, run_pb2

LOOK_S = 1.0
COMMAND = ("python3", "-c", "print('the broker was here', flush=True)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is tried: ``where`` is a region or one of its clusters; within so many seconds."""

    where: str
    image: str
    within_s: float


def trial(session: Session, wish: Trial) -> Iterator[Check]:
    """Submit a gang of one accelerator, wait for its end, and yield what happened."""
    region = _region_of(session.client.regions.find().regions, wish.where)
    what = f"try {wish.where}"
    flavors = [
        flavor for cluster in region.clusters for flavor in cluster.flavors if flavor.accelerator
    ]
    if not flavors:
        said = f"{words.id_of(region.name)} shows no flavor with an accelerator to try"
        yield Check(what=what, is_well=False, said=said)
        return
    intent = _intent(region, flavors, wish)
    run_id = f"doctor-{os.urandom(4).hex()}"
    with _unwound_by_signals():
        found = _tried(session, what, intent, wish.within_s, run_id)
    yield found


def _tried(
    session: Session, what: str, intent: intent_pb2.Intent, within_s: float, run_id: str
) -> Check:
    """Submit it, and wait for its end; whatever breaks that off gives it up."""
    try:
        run = session.client.runs.submit(session.team, intent, run_id=run_id)
    except BrokerError as error:
        return Check(what=what, is_well=False, said=f"it was not accepted: {error.message}")
    try:
        session.note(f"submitted {run.name}: one {intent.workload.hardware[0].accelerator}")
        return _follow(session, what, run, within_s)
    except BaseException:
        session.client.runs.cancel(run.name, grace_s=0, message="the trial was given up")
        raise


@contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Have what ends a process unwind it first, so that what it began is given up."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {one: signal.signal(one, leave) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _region_of(regions: Iterable[region_pb2.Region], where: str) -> region_pb2.Region:
    known = []
    for region in regions:
        clusters = [cluster.cluster for cluster in region.clusters]
        known += [words.id_of(region.name), *clusters]
        if where in (words.id_of(region.name), *clusters):
            return region
    raise NotFound(f"there is no region or cluster {where[:80]!r}; these are: {', '.join(known)}")


def _intent(
    region: region_pb2.Region, flavors: list[region_pb2.FlavorStatus], wish: Trial
) -> intent_pb2.Intent:
    intent = intent_pb2.Intent()
    intent.workload.command.extend(COMMAND)
    intent.workload.image = wish.image
    option = intent.workload.hardware.add()
    option.accelerator = flavors[0].accelerator
    option.accelerators_per_node = option.nodes = 1
    intent.terms.capacity_types.extend(sorted({flavor.capacity_type for flavor in flavors}))
    intent.terms.regions.append(words.id_of(region.name))
    intent.terms.max_wait.FromMilliseconds(round(wish.within_s * 1000))
    intent.terms.after_max_wait = intent_pb2.AFTER_MAX_WAIT_FAIL
    return intent


def _follow(session: Session, what: str, run: run_pb2.Run, within_s: float) -> Check:
    """Wait for the run's end and say what it was; one that takes too long is cancelled."""
    told = place = ""
    until_s = time.monotonic() + within_s
    while not has_ended(run) and time.monotonic() < until_s:
        time.sleep(LOOK_S)
        run = session.client.runs.get(run.name)
        for one in run.placements:
            place = f" in {one.place.cluster}, queue {one.place.queue}, flavor {one.place.flavor}"
        said = f"{words.enum_name(run, 'state').lower()}: {run.why.message}"
        if said != told and not has_ended(run):
            session.note(said)
            told = said
    took = words.span(session.now_s - words.wall_s(run.create_time))
    if run.state == run_pb2.RUN_STATE_SUCCEEDED:
        return Check(what=what, is_well=True, said=f"a gang ran to its end{place} in {took}")
    if has_ended(run):
        state = words.enum_name(run, "state").lower()
        said = f"the run {short(run.name)}{place} {state} after {took}: {run.why.message}"
        return Check(what=what, is_well=False, said=said)
    session.client.runs.cancel(run.name, grace_s=0, message="the trial took too long")
    said = f"it had not ended within {words.span(within_s)}{place} and was cancelled: {told}"
    return Check(what=what, is_well=False, said=said)
