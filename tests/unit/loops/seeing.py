"""What a cluster shows, for tests: no argument is valid, a test sets only what it is about."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from broker.loops.sight import ClusterSight, Sight, epoch_key
from broker.model.moment import Moment
from broker.model.run import Placement, Run
from regions.cluster import (
    Cause,
    ClusterObservation,
    EpochSeen,
    OwnerState,
    PlacementSeen,
    RankEnded,
    RankReport,
    Stage,
)

CLUSTER = "alpha"
NOW = Moment(elapsed_s=1000.0, wall_s=1_700_001_000.0)


def placement_seen(placement: Placement, run: Run, **changes: Any) -> PlacementSeen:
    """Show a placement's object, waiting for quota."""
    seen = PlacementSeen(
        placement=placement.id,
        run_key=run.uid,
        uid=placement.cluster_uid or f"uid-{placement.id}",
        queue=placement.site.key.queue,
        flavor=placement.site.key.flavor,
        stage=Stage.QUEUED,
        cause=Cause.WAITING_FOR_QUOTA,
        message="",
        ahead=1,
        ahead_gpus=8,
        nodes_here=0,
        nodes_wanted=placement.site.nodes,
        members=(),
        standing={},
        is_whole_at_gate=False,
        is_granted=False,
        labels={"run": run.name},
    )
    return replace(seen, **changes)


def epoch_seen(run: Run, **changes: Any) -> EpochSeen:
    """Show the open epoch's records, started and with nothing reported."""
    epoch = run.open_epoch
    assert epoch is not None
    seen = EpochSeen(
        key=epoch_key(run, epoch),
        placement=epoch.placement,
        owner=OwnerState.STARTED,
        nonces=epoch.nonces or ("00000000aa", "11111111bb"),
        reports=(),
        ends=(),
        gone=frozenset(),
        is_drain_written=False,
        is_fence_written=False,
        checkpoints=(),
    )
    return replace(seen, **changes)


def report(rank: int, **changes: Any) -> RankReport:
    """Show a heartbeat of a rank that runs."""
    heartbeat = RankReport(
        rank=rank,
        nonce=f"{rank}",
        beat=1,
        is_running=True,
        step=None,
        loss=None,
        is_drain_acked=False,
        drain_step=None,
    )
    return replace(heartbeat, **changes)


def ended(run: Run, rank: int, exit_code: int | None = 0, **changes: Any) -> RankEnded:
    """Show the last word of a rank of the open epoch."""
    epoch = run.open_epoch
    assert epoch is not None
    end = RankEnded(
        rank=rank,
        nonce=epoch.nonces[rank],
        kind="EXITED",
        cause="command",
        exit_code=exit_code,
        signal=None,
        was_asked=False,
    )
    return replace(end, **changes)


def observation(
    placements: Iterable[PlacementSeen] = (), epochs: Iterable[EpochSeen] = (), **changes: Any
) -> ClusterObservation:
    """Show a cluster whole, with these placements and epochs."""
    seen = ClusterObservation(
        cluster=CLUSTER,
        region=CLUSTER,
        seen_at_s=0.0,
        is_whole=True,
        is_store_readable=True,
        blind=(),
        queues=(),
        placements={one.placement: one for one in placements},
        epochs={one.key: one for one in epochs},
        signals=(),
        changed=None,
        keeps_secrets=True,
    )
    return replace(seen, **changes)


def sight_of(
    placements: Iterable[PlacementSeen] = (), epochs: Iterable[EpochSeen] = (), **changes: Any
) -> ClusterSight:
    """Return the sight of a cluster that showed just this."""
    seen = observation(placements, epochs, **changes)
    sight = Sight([(seen.cluster, seen.region)])
    sight.saw(seen, NOW, ())
    return sight.cluster(seen.cluster)


def silent(
    before: ClusterSight | None = None, store: ClusterObservation | None = None
) -> ClusterSight:
    """Return the sight of a cluster that fell silent after it showed something."""
    sight = Sight([(CLUSTER, CLUSTER)])
    if before is not None and before.observation is not None:
        sight.saw(before.observation, NOW, ())
    sight.heard_nothing(CLUSTER, store, NOW, ())
    return sight.cluster(CLUSTER)
