"""How far each region is behind a run's newest checkpoint, for the wire."""

from collections.abc import Sequence

from broker.model.run import Run
from broker.model.sightings import Replica
from broker.service import wire
from broker.service.convert_run import newest_checkpoint
from broker.v1 import checkpoint_pb2, run_service_pb2


def replicas_message(run: Run, replicas: Sequence[Replica]) -> run_service_pb2.ListReplicasResponse:
    """Return the regions, those with the newest first."""
    newest = newest_checkpoint(run)
    ordered = sorted(replicas, key=lambda r: (-1 if r.step is None else -r.step, r.region))
    ordered.sort(key=lambda r: r.step is None)
    return run_service_pb2.ListReplicasResponse(
        replicas=[_replica(one) for one in ordered],
        newest_step=newest.ref.step if newest is not None else None,
        unreachable=[f"regions/{r.region}" for r in replicas if not r.is_reachable],
    )


def _replica(replica: Replica) -> checkpoint_pb2.Replica:
    left_s, spend = replica.left_s, replica.spend
    return checkpoint_pb2.Replica(
        region=replica.region,
        step=replica.step,
        behind_steps=replica.behind_steps,
        behind_bytes=replica.behind_bytes,
        behind=wire.duration(replica.behind_s),
        copying_step=replica.copying_step,
        copied_bytes=replica.copied_bytes,
        copying_bytes=replica.copying_bytes,
        message=replica.message,
        bytes_per_second=replica.copy_bytes_per_s,
        left=None if left_s is None else wire.duration(left_s),
        sent_bytes=0 if spend is None else spend.sent_bytes,
        cost=None if spend is None else wire.money(spend.usd),
    )
