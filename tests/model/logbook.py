"""The broker's log in the modelled world: production's own events, decided and folded by it.

The rule: the model tells ``broker.history`` the commands that production's loops would tell it, and
keeps what it answers; what it refuses did not happen. So which checkpoints a seal counts (B3),
where a start resumes from, that one epoch is open, and what a restored log becomes (R1, R2) are
production's doing. Read ``tell`` first.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from broker.history.commands import (
    AddPlacement,
    CloseEpoch,
    GrantPlacement,
    MarkPrepared,
    RecordCheckpoint,
    RecordCopy,
    RecordStart,
    RunCommand,
)
from broker.history.context import Context
from broker.history.events import Recorded, RunEvent
from broker.history.evolve import evolve
from broker.history.refusals import Refused
from broker.loops import orders
from broker.loops.closing import RULES
from broker.loops.restoring import own_seals
from broker.model.capacity import FlavorKey
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.intent import Limits
from broker.model.reasons import Reason
from broker.model.run import Purpose, RankEnd, Run, Site
from regions.launcher import layout
from regions.launcher.layout import Seal, Started
from regions.launcher.rules import How
from tests.builders import BROKER, Story, make_context, make_intent, make_site, make_terms
from tests.model.identity import by_identity

Batch = tuple[RunEvent, ...]
Log = tuple[Batch, ...]
Decide = Callable[[Run | None, RunCommand, Context], Batch]
Saved = frozenset[tuple[layout.EpochId, int]]

_MANY = 1_000
_TERMS = make_terms(limits=Limits(user_restarts=_MANY, infrastructure_losses=_MANY))
SUBMITTED = Story(intent=make_intent(terms=_TERMS)).accepted().run
NOW = SUBMITTED.updated
NONCES = tuple(f"{life:08x}" for life in range(1, 10))
"""The nonces of grants, by the life of the broker that gives them."""


class Granted(NamedTuple):
    """A grant that the log spoke of. ``resume`` is (epoch, step)."""

    epoch: layout.EpochId
    placement: int
    resume: tuple[layout.EpochId, int] | None
    seals: tuple[Seal, ...]


class Leg(NamedTuple):
    """Where a grant may go: a placement, its region, and the nonce that the grant would have."""

    placement: int
    region: str
    nonce: str


leg_of = cache(Leg)


@by_identity
def run_of(log: Log) -> Run:
    """Return the run as the log tells it."""
    run = SUBMITTED
    for batch in log:
        run = _evolved(run, batch)
    return run


def tell(
    decide: Decide, run: Run, *commands: RunCommand, unseen: frozenset[str] = frozenset()
) -> tuple[Run, Log]:
    """Tell commands one after the other; return the run after them, and what was logged.

    ``unseen`` are regions that a restored broker has not read. Raises Refused.
    """
    told: list[Batch] = []
    for command in commands:
        batch = decide(run, command, make_context(NOW, unseen_regions=unseen))
        if batch:
            told.append(batch)
            run = _evolved(run, batch)
    return run, tuple(told)


def _evolved(run: Run, batch: Batch) -> Run:
    for event in batch:
        version = run.stream_version + 1
        recorded = Recorded(
            position=version,
            stream=run.name,
            stream_version=version,
            at=NOW,
            actor=BROKER,
            event=event,
        )
        run = evolve(run, recorded)
    return run


@by_identity
def opened(
    decide: Decide, log: Log, leg: Leg, saved: Saved, is_joining: bool
) -> tuple[Log, Granted] | None:
    """Return what the log says of a grant to a placement, None when it is refused.

    Whatever stands in the stores is told again just before, also of epochs that are closed, and
    all that counts is copied to where the start will be. ``is_joining``: a restored broker has not
    read that region yet.
    """
    run, (placement, region, nonce) = run_of(log), leg
    try:
        run, looked = tell(decide, run, *_described(run, saved))
        run, added = tell(
            decide,
            run,
            *(RecordCopy(ref=one.ref, region=region) for one in run.checkpoints),
            AddPlacement(
                placement=f"p{placement}",
                purpose=Purpose.FIRST,
                site=site_of(placement, region),
                message="",
            ),
            MarkPrepared(placement=f"p{placement}"),
        )
        run, granted = tell(
            decide,
            run,
            GrantPlacement(placement=f"p{placement}", nonce=nonce),
            unseen=frozenset({region}) if is_joining else frozenset(),
        )
    except Refused:
        return None
    epoch = run.open_epoch
    if not granted or epoch is None:
        return None
    record = orders.grant(run, epoch, int(nonce, 16))
    event = Granted(
        epoch=key(epoch.id),
        placement=placement,
        resume=layout.checkpoint_of(record.resume_path or ""),
        seals=tuple(
            Seal(epoch=layout.EpochId(number=s.number, nonce=s.nonce), steps=s.checkpoints)
            for s in record.seals
        ),
    )
    # One transaction to the model: what is logged before the grant changes nothing without it.
    batch = tuple(event for part in (*looked, *added, *granted) for event in part)
    return (*log, batch), event


@by_identity
def closed(
    decide: Decide, log: Log, how: How, owner: Started | None, saved: Saved
) -> tuple[Log, ...]:
    """Return the ways in which the log may say that the open epoch is closed.

    They differ in what was known of it: of a region that went silent, its start and any part of
    what it saved. The start is a transaction of its own, so that a backup may hold just it.
    """
    run = run_of(log)
    last = run.open_epoch
    if last is None:
        return ()
    epoch = last.id
    complete = tuple(one for one in _described(run, saved) if one.ref.epoch == epoch)
    ranks = () if owner is None else range(len(owner.nonces))
    ends = tuple(RankEnd(rank=rank, exit_code=None, cause="seen gone") for rank in ranks)
    start = RecordStart(epoch=epoch, nonces=() if owner is None else owner.nonces)
    close = CloseEpoch(
        epoch=epoch,
        rule=RULES[how],
        ends=ends,
        found=complete,
        cause=Reason.NODE_PREEMPTED,
        message="",
    )
    match how:
        case How.REVOKED:
            ways: list[tuple[RunCommand, ...]] = [(close,)]
        case How.ENDED | How.FENCED:
            ways = [(start, close)]
        case How.UNREACHABLE:
            blind = CloseEpoch(
                epoch=close.epoch,
                rule=close.rule,
                ends=(),
                found=(),
                cause=close.cause,
                message="",
            )
            ways = [(blind,)]
            if owner is not None:
                ways += [(start, *complete[:n], blind) for n in range(len(complete) + 1)]
    return tuple((*log, *tell(decide, run, *way)[1]) for way in ways)


def _described(run: Run, saved: Saved) -> Iterator[RecordCheckpoint]:
    """Yield what a look at the stores says of every complete checkpoint."""
    regions = {key(epoch.id): epoch.region for epoch in run.epochs}
    for epoch, step in sorted(saved, key=lambda one: (one[0].number, one[0].nonce, one[1])):
        if epoch in regions:
            yield RecordCheckpoint(
                ref=CheckpointRef(epoch=_epoch(epoch), step=step, digest=f"{step:064x}"),
                size_bytes=1,
                region=regions[epoch],
                written_wall_s=NOW.wall_s,
            )


@by_identity
def seals_of(log: Log) -> dict[layout.EpochId, tuple[tuple[int, str], ...]]:
    """Return what counts of each epoch that has something that counts."""
    found: dict[layout.EpochId, tuple[tuple[int, str], ...]] = {}
    for one in sorted(c.ref for c in run_of(log).checkpoints if c.is_sealed):
        found[key(one.epoch)] = (*found.get(key(one.epoch), ()), (one.step, one.digest))
    return found


@by_identity
def carried(log: Log) -> tuple[Seal, ...]:
    """Return the seals of the log, as a restored broker joins them with those of the stores."""
    return own_seals(run_of(log))


_alike: dict[object, Log] = {}


@by_identity
def condensed(log: Log) -> Log:
    """Return one log that stands for all of which the future is the same, if none is cut again."""
    run = run_of(log)
    essence = (
        tuple(
            (e.id, e.placement, e.is_open, e.is_owed, e.nonces, e.resume_from) for e in run.epochs
        ),
        frozenset((c.ref, c.is_sealed) for c in run.checkpoints),
        frozenset(run.placements),
        run.next_epoch,
    )
    return _alike.setdefault(essence, log)


def site_of(placement: int, region: str) -> Site:
    """Return where a placement stands: each in a queue of its own."""
    return make_site(region, key=FlavorKey(cluster=region, queue=f"q{placement}", flavor="spot"))


def key(epoch: EpochId) -> layout.EpochId:
    """Return an epoch as the stores name it."""
    return layout.EpochId(number=epoch.number, nonce=epoch.nonce)


def _epoch(epoch: layout.EpochId) -> EpochId:
    return EpochId(number=epoch.number, nonce=epoch.nonce)
