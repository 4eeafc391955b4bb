"""What a test's own corner of a region stands on: its zone, its nodes, its store, its pace."""

from __future__ import annotations

from typing import Any

from regions.kueue.site import Pace
from tests.cluster.rig import fleet
from tests.cluster.rig.machines.pools import GPU, Pool

ZONE = "europe-west4-b"
MOUNT = "/stores/west"
NODE = {"cpu": "16", "memory": "64Gi", GPU: "1", "pods": "20", "ephemeral-storage": "1Ti"}
QUICK = Pace(gate_poll_s=0.1, gate_fresh_s=4.0, control_poll_s=0.2, report_s=0.2, end_retry_s=20.0)


def pool_of(name: str, **fields: Any) -> Pool:
    """Return a pool of nodes with one H100 each; ``fields`` are those of Pool."""
    return Pool(
        name=name,
        zone=ZONE,
        labels={fleet.ACCELERATOR: fleet.H100},
        taints=[fleet.PRESENT],
        capacity=NODE,
        **fields,
    )
