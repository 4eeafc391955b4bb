"""What the log holds, as the port's actions: queue, grant, drain, withdraw. Pure.

The rule: an action is derived from what is written and can be derived again, the same, by another
life of the broker; it names the very object or epoch that it means. Read ``queue`` first.
"""

from collections.abc import Sequence
from dataclasses import replace

from broker.loops.image_book import ImageBook
from broker.loops.sight import epoch_key
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.moment import Moment
from broker.model.policy import RegionPolicy
from broker.model.run import Epoch, Placement, Run, Site
from regions.cluster import (
    Action,
    Drain,
    EpochSeen,
    Fence,
    Grant,
    OwnerState,
    PlacementSeen,
    Queue,
    Revoke,
    Withdraw,
)
from regions.gang import Gang, SealRecord

SEALS_MAX = 1000  # a record has a length; regions.launcher.codec refuses what is above
SEALED_STEPS_MAX = 8_000
MARK = "log"  # the label that says by whose log an object was put into a cluster
REASON_MAX = 200  # characters of a sentence that travels in a control record
WAITS_BELOW_ALL = -(2**31)
"""The priority of a gang that waits for a grant: whatever its user asked, it preempts nobody."""


def queue(
    run: Run, placement: Placement, policy: RegionPolicy, mark: str, book: ImageBook | None
) -> Queue:
    """Return the order that puts a placement's gang into its queue, gated, with the log's mark.

    ``book`` says what the region calls the run's image; None: what the run does.
    """
    told = order(run, placement.id, placement.site, policy, mark, book=book)
    return replace(told, is_granted=placement.epoch is not None)


def order(
    run: Run,
    placement: str,
    site: Site,
    policy: RegionPolicy,
    mark: str,
    *,
    book: ImageBook | None,
) -> Queue:
    """Return what ``queue`` does, for a placement by its id that may not have been made yet."""
    workload = run.intent.workload
    option = workload.hardware[site.hardware_index]
    return Queue(
        placement=placement,
        run_key=run.uid,
        run_name=run.name,
        queue=site.key.queue,
        flavor=site.key.flavor,
        gang=Gang(
            ranks=option.nodes,
            accelerator=option.accelerator,
            accelerators_per_node=option.accelerators_per_node,
            cpu_millis=workload.resources.cpu_millis,
            memory_bytes=workload.resources.memory_bytes,
            topology=option.topology.value,
        ),
        command=workload.command,
        env={
            **dict(workload.env),
            "BROKER_CAPACITY_TYPE": site.capacity_type.value,
            "BROKER_LOSS_FIELD": workload.progress.loss_field,
        },
        image=image_in(run, site.region, book),
        bundle_digest=workload.bundle_digest,
        secrets=tuple((s.name, s.env, s.mount_path) for s in workload.secrets),
        service_account=workload.service_account,
        priority=WAITS_BELOW_ALL,
        granted_priority=run.terms.priority,
        gate_timeout_s=policy.gate_timeout_s,
        stop_grace_s=policy.fence_grace_s,
        labels={
            "team": run.intent.team,
            "owner": run.intent.owner,
            "run": run.name,
            "placement": placement,
            "capacity_type": site.capacity_type.value,
            MARK: mark,
        },
        capacity_type=site.capacity_type.value,
        internet=workload.internet,
        service_account_token=workload.service_account_token,
    )


def image_in(run: Run, region: str, book: ImageBook | None) -> str:
    """Return by what name a region's clusters pull a run's image."""
    if run.image is None:
        return run.intent.workload.image
    return run.image.name if book is None else book.name_in(run.image.name, region)


def grant(run: Run, epoch: Epoch, incarnation: int) -> Grant:
    """Return the order that writes an epoch's grant, with the seals that it rests on (R2)."""
    return Grant(
        placement=epoch.placement,
        epoch=epoch_key(run, epoch),
        incarnation=incarnation,
        world_size=run.placements[epoch.placement].site.nodes,
        resume_path=None if epoch.resume_from is None else path(run, epoch.resume_from),
        bundle_digest=run.intent.workload.bundle_digest,
        seals=_seals(run),
    )


def _seals(run: Run) -> tuple[SealRecord, ...]:
    """Return what counts of the closed epochs, the newest of it, as much as a grant can carry.

    A grant that is longer is one that no launcher reads: its gang would stand at the gate in vain,
    and every later one too. What is left out is in the log alone.
    """
    counting: dict[EpochId, list[tuple[int, str]]] = {}
    for one in run.checkpoints:
        if one.is_sealed and one.ref.is_own:
            counting.setdefault(one.ref.epoch, []).append((one.ref.step, one.ref.digest))
    closed = [e.id for e in run.epochs if not e.is_open and e.started_s is not None]
    left, carried = SEALED_STEPS_MAX, []
    for epoch in reversed(closed[-SEALS_MAX:]):
        steps = sorted(counting.get(epoch, ()), reverse=True)[:left]
        left -= len(steps)
        carried.append(
            SealRecord(number=epoch.number, nonce=epoch.nonce, checkpoints=tuple(reversed(steps)))
        )
    return tuple(reversed(carried))


def path(run: Run, ref: CheckpointRef) -> str:
    """Return a checkpoint's folder, relative to a store."""
    return f"runs/{ref.run_uid or run.uid}/{ref.epoch.folder}/checkpoints/step-{ref.step}"


def drain(run: Run, epoch: Epoch, now: Moment) -> Drain | None:
    """Return the order to save and stop, None when none was given."""
    if epoch.drain is None:
        return None
    return Drain(
        epoch=epoch_key(run, epoch),
        reason=epoch.drain.message[:REASON_MAX] or epoch.drain.reason.value,
        grace_s=max(0.0, epoch.drain.deadline_s - now.elapsed_s),
    )


def revoke(run: Run, epoch: Epoch) -> Revoke:
    """Return the order to revoke an epoch that has no owner yet."""
    return Revoke(epoch=epoch_key(run, epoch))


def fence(run: Run, epoch: Epoch) -> Fence:
    """Return the order that tells an epoch to stop."""
    why = "closed" if epoch.stop is None else epoch.stop.message or epoch.stop.reason.value
    return Fence(epoch=epoch_key(run, epoch), reason=why[:REASON_MAX])


def remove_orphan(seen: PlacementSeen, epochs: Sequence[EpochSeen]) -> tuple[Action, ...]:
    """Return the orders that remove an object of no run; ``epochs`` are those of its placement.

    One that has not started is revoked first. One that has is told to stop, and is removed once
    every process of it is seen to be over.
    """
    told: list[Action] = []
    is_over = True
    for epoch in epochs:
        if epoch.owner is OwnerState.ABSENT:
            told.append(Revoke(epoch=epoch.key))
        elif epoch.owner is OwnerState.STARTED:
            over = {end.rank for end in epoch.ends} | epoch.gone
            if not epoch.is_fence_written:
                told.append(Fence(epoch=epoch.key, reason="a person removed it: it is of no run"))
            is_over = is_over and len(over) == len(epoch.nonces)
        else:
            is_over = is_over and epoch.owner is OwnerState.REVOKED
    if is_over:
        told.append(
            Withdraw(
                placement=seen.placement,
                run_key=seen.run_key,
                uid=seen.uid,
                epoch=epochs[0].key if epochs else None,
                # What was revoked just now is read once more: its gang may have been faster.
                is_closed=any(epoch.owner is OwnerState.STARTED for epoch in epochs),
            )
        )
    return tuple(told)


def withdraw(run: Run, placement: Placement, uid: str) -> Withdraw:
    """Return the order to remove a placement's object; ``uid`` is the one that is meant."""
    epoch = None if placement.epoch is None else run.epoch(placement.epoch)
    return Withdraw(
        placement=placement.id,
        run_key=run.uid,
        uid=uid,
        epoch=None if epoch is None else epoch_key(run, epoch),
        is_closed=epoch is not None and not epoch.is_open,
    )
