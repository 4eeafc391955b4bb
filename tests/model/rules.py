"""The rules that a search runs on: production's own, or production's with one of them weakened.

The rule: a weakened variant replaces one function and changes one thing in it. Production knows
nothing of variants. Read ``PRODUCTION`` first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from broker.history.commands import GrantPlacement, RecordCheckpoint, RunCommand
from broker.history.context import Context
from broker.history.decide import decide
from broker.history.events import CheckpointCompleted
from broker.history.events import Granted as GrantLogged
from broker.history.lineage import pick
from broker.model.replacing import replace as with_changes
from broker.model.run import Run as RunInLog
from regions.launcher import restore, rules
from regions.launcher.layout import DrainOrder, EpochId, Fence, Grant, Seal, Started
from regions.launcher.reading import Absent, Reading
from regions.launcher.restore import Adopted, NotSeen, Revocations, StoreSeen
from regions.launcher.rules import (
    BeginDrain,
    Closed,
    CreateOwner,
    Evidence,
    How,
    Keep,
    Owner,
    Prepare,
    Run,
    Standing,
    Step,
    Stop,
    Verdict,
    Wish,
)
from tests.model.logbook import Batch, Decide
from tests.model.world import World

Adoption = NotSeen | Revocations | Adopted


class Adopt(Protocol):
    """``regions.launcher.restore.adopt``, or what stands in its place."""

    def __call__(
        self,
        last_number: int,
        top: int,
        own_seals: Iterable[Seal],
        stores: tuple[StoreSeen, ...],
        unseen: frozenset[str],
        *,
        settled: frozenset[int],
    ) -> Adoption: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The functions by which processes and brokers of the model decide."""

    next_step: Callable[[Standing], Step]
    next_watch: Callable[[Reading[Fence], Reading[DrainOrder], bool], Keep | BeginDrain | Stop]
    judge: Callable[[Evidence, Wish], Verdict]
    decide: Decide
    adopt: Adopt
    may_withdraw: Callable[[Reading[Grant], Reading[Owner], bool], bool]
    owner_name: Callable[[EpochId], int | tuple[int, str]]


PRODUCTION = Rules(
    next_step=rules.next_step,
    next_watch=rules.next_watch,
    judge=rules.judge,
    decide=decide,
    adopt=restore.adopt,
    may_withdraw=rules.may_withdraw,
    owner_name=lambda epoch: epoch.number,
)


def without_b2() -> Rules:
    """An epoch that has not started yet is taken for closed, without REVOKED."""

    def judge(evidence: Evidence, wish: Wish) -> Verdict:
        if isinstance(evidence.owner, Absent) and wish is Wish.CLOSE:
            return Closed(how=How.REVOKED, is_owed=False)
        return rules.judge(evidence, wish)

    return replace(PRODUCTION, judge=judge)


def without_b3() -> Rules:
    """What a look at the store of a sealed epoch finds counts, when the next start needs one."""

    def decide_anew(run: RunInLog | None, command: RunCommand, context: Context) -> Batch:
        events = decide(run, command, context)
        if run is None or run.open_epoch is not None:
            return events
        match command:
            case RecordCheckpoint() if command.ref not in {c.ref for c in run.checkpoints}:
                return (
                    CheckpointCompleted(
                        ref=command.ref,
                        size_bytes=command.size_bytes,
                        region=command.region,
                        written_wall_s=command.written_wall_s,
                    ),
                )
            case GrantPlacement():
                all_count = (with_changes(c, is_sealed=True) for c in run.checkpoints)
                found = with_changes(run, checkpoints=tuple(all_count))
                region = run.placements[command.placement].site.region
                return tuple(
                    with_changes(event, resume_from=pick(found, region))
                    if isinstance(event, GrantLogged)
                    else event
                    for event in events
                )
            case _:
                return events

    return replace(PRODUCTION, decide=decide_anew)


def without_l1() -> Rules:
    """Rank 0 lists whoever left a record at the gate, fresh or not."""

    def next_step(standing: Standing) -> Step:
        grant = standing.grant
        step = rules.next_step(standing)
        if (
            isinstance(step, rules.Wait | CreateOwner)
            and standing.rank == 0
            and isinstance(grant, Grant)
            and isinstance(standing.owner, Absent)
        ):
            by_rank = {0: standing.nonce}
            for seen in standing.watch.sightings:
                by_rank.setdefault(seen.gate.rank, seen.gate.nonce)
            nonces = tuple(by_rank[rank] for rank in sorted(by_rank))
            if len(nonces) == standing.world_size:
                return CreateOwner(
                    Started(grant_nonce=grant.epoch.nonce, placement=grant.placement, nonces=nonces)
                )
        return step

    return replace(PRODUCTION, next_step=next_step)


def without_l2() -> Rules:
    """A process passes when the owner says STARTED, whomever it lists."""

    def next_step(standing: Standing) -> Step:
        step = rules.next_step(standing)
        if step == rules.Leave(rules.Cause.NOT_LISTED) and isinstance(standing.grant, Grant):
            return Run(standing.grant) if standing.is_prepared else Prepare(standing.grant)
        return step

    return replace(PRODUCTION, next_step=next_step)


def without_l3() -> Rules:
    """A process that was let pass runs its command without another look at the fence."""

    def next_step(standing: Standing) -> Step:
        if standing.is_prepared and isinstance(standing.grant, Grant):
            return Run(standing.grant)
        return rules.next_step(standing)

    return replace(PRODUCTION, next_step=next_step)


def without_r1() -> Rules:
    """A restored broker goes on where its log ends."""

    def adopt(
        last_number: int,
        top: int,
        own_seals: Iterable[Seal],
        stores: tuple[StoreSeen, ...],
        unseen: frozenset[str],
        *,
        settled: frozenset[int],
    ) -> Adoption:
        return restore.Adopted(
            open=(),
            over=(),
            closed=frozenset(),
            next_number=last_number + 1,
            seals=tuple(own_seals),
        )

    return replace(PRODUCTION, adopt=adopt)


def without_r2() -> Rules:
    """A restored broker adopts what it finds with its own seals, whatever the grants carry."""

    def adopt(
        last_number: int,
        top: int,
        own_seals: Iterable[Seal],
        stores: tuple[StoreSeen, ...],
        unseen: frozenset[str],
        *,
        settled: frozenset[int],
    ) -> Adoption:
        own = tuple(own_seals)
        found = restore.adopt(last_number, top, own, stores, unseen, settled=settled)
        return replace(found, seals=own) if isinstance(found, Adopted) else found

    return replace(PRODUCTION, adopt=adopt)


def without_garbled() -> Rules:
    """A restored broker passes over every owner that it cannot read."""

    def adopt(
        last_number: int,
        top: int,
        own_seals: Iterable[Seal],
        stores: tuple[StoreSeen, ...],
        unseen: frozenset[str],
        *,
        settled: frozenset[int],
    ) -> Adoption:
        every = frozenset(number for store in stores for number in store.owners)
        return restore.adopt(last_number, top, own_seals, stores, unseen, settled=every)

    return replace(PRODUCTION, adopt=adopt)


def without_margin() -> Rules:
    """A restored broker revokes only the epochs of which it found a trace."""

    def adopt(
        last_number: int,
        top: int,
        own_seals: Iterable[Seal],
        stores: tuple[StoreSeen, ...],
        unseen: frozenset[str],
        *,
        settled: frozenset[int],
    ) -> Adoption:
        found = restore.top_number(last_number, stores, 0)
        return restore.adopt(last_number, found, own_seals, stores, unseen, settled=settled)

    return replace(PRODUCTION, adopt=adopt)


def with_owners_by_nonce() -> Rules:
    """Owners are named by grant nonce too, which a restored broker cannot know."""
    return replace(PRODUCTION, owner_name=lambda epoch: (epoch.number, epoch.nonce))


def sorted_steps(world: World, epoch: EpochId) -> tuple[tuple[EpochId, int], ...]:
    """Return the complete checkpoints of an epoch, as they are in its store now."""
    return tuple(sorted((one for one in world.saved if one[0] == epoch), key=lambda one: one[1]))
