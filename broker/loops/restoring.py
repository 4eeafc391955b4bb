"""A restored log joined with what the stores hold, run by run. Pure.

The rule: what happened after the backup is fact. ``regions.launcher.restore.adopt`` says what is to
be revoked and what is to be taken over; here its answer becomes commands. Read ``taken_over``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from broker.history.commands import (
    AdoptEpoch,
    CloseEpoch,
    RecordCheckpoint,
    RecordStart,
    RunCommand,
    SkipEpochs,
)
from broker.model.bill import NodesFrom
from broker.model.capacity import FlavorFacts, FlavorKey
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Run, Site
from regions.cluster import PlacementSeen
from regions.launcher import layout, restore


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a found placement is or was, and since when it has how many machines there."""

    site: Site
    nodes: tuple[NodesFrom, ...]


def own_seals(run: Run) -> tuple[layout.Seal, ...]:
    """Return the seals that the log holds, of started epochs that are closed."""
    return tuple(
        layout.Seal(
            epoch=_key(epoch.id),
            steps=tuple(
                sorted(
                    (c.ref.step, c.ref.digest)
                    for c in run.checkpoints
                    if c.ref.epoch == epoch.id and c.is_sealed
                )
            ),
        )
        for epoch in run.epochs
        if not epoch.is_open and epoch.started_s is not None
    )


def settled(run: Run) -> frozenset[int]:
    """Return the numbers of the epochs that the log holds closed with proof."""
    return frozenset(e.id.number for e in run.epochs if not e.is_open and not e.is_owed)


def taken_over(
    run: Run,
    found: restore.Adopted,
    grants: Mapping[layout.EpochId, layout.Grant],
    places: Mapping[str, Place],
    now: Moment,
) -> tuple[RunCommand, ...]:
    """Return what the stores make of a run: epochs closed, taken over, stepped over.

    ``grants`` are those found, by epoch; ``places`` are those of the found placements. Also an
    epoch that is over is taken over, and closed with the seal that a later grant carries: without
    it the run would go back behind what that seal counts (R2).
    """
    told: list[RunCommand] = []
    epoch, last_number = run.open_epoch, run.next_epoch - 1
    for one in sorted((*found.over, *found.open), key=lambda one: one.epoch.number):
        id_ = _epoch(one.epoch)
        if epoch is not None and id_ == epoch.id and one in found.over:
            # What has a seal has started, also when our log was cut before it could know.
            nodes = places[one.placement].nodes
            told.append(RecordStart(epoch=id_, nonces=one.nonces, nodes=nodes))
        elif one.epoch.number > last_number:
            last_number = one.epoch.number
            told.append(
                _adopted(run, one, found.seals, grants.get(one.epoch), places[one.placement])
            )
        else:
            continue
        if one in found.over:
            told.append(_closed(id_, one.region, found.seals, now))
    if epoch is not None and not told and _key(epoch.id) in found.closed:
        # Its store was waived, and the seal is all that is known of it.
        told.append(_closed(epoch.id, epoch.region, found.seals, now))
    return (*told, SkipEpochs(next_epoch=found.next_number))


def _closed(epoch: EpochId, region: str, seals: tuple[layout.Seal, ...], now: Moment) -> CloseEpoch:
    """Close what a grant proves to have been closed, with the seal that it carries."""
    steps = next((seal.steps for seal in seals if seal.epoch == _key(epoch)), ())
    return CloseEpoch(
        epoch=epoch,
        # By which rule it was is lost; a fence to a closed epoch harms nothing.
        rule=CloseRule.UNREACHABLE,
        ends=(),
        found=tuple(
            RecordCheckpoint(
                ref=CheckpointRef(epoch=epoch, step=step, digest=digest),
                size_bytes=0,  # not in the seal; a copy measures it
                region=region,
                written_wall_s=now.wall_s,
            )
            for step, digest in steps
        ),
        cause=Reason.ADOPTED,
        message="a later grant shows that it was closed before the restore",
    )


def _adopted(
    run: Run,
    found: restore.FoundEpoch,
    seals: tuple[layout.Seal, ...],
    grant: layout.Grant | None,
    place: Place,
) -> AdoptEpoch:
    refs = tuple(
        CheckpointRef(epoch=_epoch(seal.epoch), step=step, digest=digest)
        for seal in seals
        if seal.epoch.number < found.epoch.number
        for step, digest in seal.steps
    )
    return AdoptEpoch(
        epoch=_epoch(found.epoch),
        placement=found.placement,
        site=place.site,
        nonces=found.nonces,
        resume_from=_resume_from(run, refs, grant),
        seals=refs,
        nodes=place.nodes,
    )


def _resume_from(
    run: Run, refs: tuple[CheckpointRef, ...], grant: layout.Grant | None
) -> CheckpointRef | None:
    origin = None if grant is None else layout.checkpoint_of(grant.resume_from or "")
    if origin is None:
        return None
    epoch, step = _epoch(origin[0]), origin[1]
    known = (*refs, *(c.ref for c in run.checkpoints))
    return next((ref for ref in known if ref.epoch == epoch and ref.step == step), None)


def site_of(
    run: Run,
    placement: str,
    world_size: int,
    *,
    cluster: str,
    region: str,
    seen: PlacementSeen | None,
    flavors: tuple[FlavorFacts, ...],
) -> Site:
    """Return where a found placement stands: as the log knows it, else as its cluster shows it."""
    known = run.placements.get(placement)
    if known is not None:
        return known.site
    hardware = run.intent.workload.hardware
    flavor = next(
        (f for f in flavors if seen and (f.key.queue, f.key.flavor) == (seen.queue, seen.flavor)),
        None,
    ) or next((f for f in flavors if f.accelerator == hardware[0].accelerator), None)
    index = next(
        (
            i
            for i, option in enumerate(hardware)
            if option.nodes == world_size
            and (flavor is None or option.accelerator == flavor.accelerator)
        ),
        0,
    )
    option = hardware[index]
    key = FlavorKey(cluster=cluster, queue="", flavor="") if flavor is None else flavor.key
    return Site(
        key=key,
        region=region,
        capacity_type=CapacityType.SPOT if flavor is None else flavor.capacity_type,
        hardware_index=index,
        nodes=option.nodes,
        gpus=option.gpus,
        price_per_gpu_hour=(flavor.price_per_gpu_hour if flavor else None) or Decimal(0),
        forecast_p50_s=None,
        forecast_p90_s=None,
        forecast_chance=0.0,
    )


def _epoch(epoch: layout.EpochId) -> EpochId:
    return EpochId(number=epoch.number, nonce=epoch.nonce)


def _key(epoch: EpochId) -> layout.EpochId:
    return layout.EpochId(number=epoch.number, nonce=epoch.nonce)
