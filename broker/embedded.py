"""The embedded default: three regions on this machine, for a newcomer, demos and tests.

The rule: it is configuration and nothing else; ``regions.local.spawn`` brings it to life, and what
runs on it is as real as anywhere. Read ``default_worlds`` first.

The regions' names and spot prices are Google's of October 2025 for one H100 of an a3-highgpu-8g
(on demand: us-central1's; flex: between the two). Machines come within seconds, so that nobody
need wait.
"""

from decimal import Decimal
from pathlib import Path
from typing import Literal

from regions.local.config import FlavorConfig, QueueConfig, QuotaConfig, WorldConfig

QUEUE = "research"
NODES = 16  # of one virtual GPU, and so one process, each
_SPOT = {
    "us-east4": Decimal("1.86"),
    "europe-west1": Decimal("2.04"),
    "us-central1": Decimal("2.37"),
}
_ON_DEMAND = Decimal("11.06")
_FLEX = Decimal("4.50")
_LONGEST_FLEX_S = 7 * 86_400.0
_Type = Literal["SPOT", "ON_DEMAND", "FLEX"]


def default_worlds(data: Path) -> dict[Path, WorldConfig]:
    """Return the three clusters' worlds by the directory of each, under a data directory."""
    home = data / "embedded"
    return {home / region: _world(region, home / region / "store") for region in _SPOT}


def _world(region: str, store: Path) -> WorldConfig:
    flavors = (
        _flavor(region, "SPOT", _SPOT[region], startup_s=2.0),
        _flavor(region, "ON_DEMAND", _ON_DEMAND, startup_s=4.0),
        _flavor(region, "FLEX", _FLEX, startup_s=2.0),
    )
    quotas = tuple(QuotaConfig(flavor=flavor.name, nominal=NODES) for flavor in flavors)
    return WorldConfig(
        cluster=f"local-{region}",
        region=region,
        store=str(store.absolute()),
        flavors=flavors,
        queues=(QueueConfig(name=QUEUE, quotas=quotas),),
    )


def _flavor(region: str, capacity_type: _Type, price: Decimal, startup_s: float) -> FlavorConfig:
    is_flex = capacity_type == "FLEX"
    return FlavorConfig(
        name=f"h100-{capacity_type.lower().replace('_', '-')}",
        accelerator="H100",
        capacity_type=capacity_type,
        zones=(f"{region}-a",),
        price_per_gpu_hour=price,
        max_nodes=NODES,
        startup_s=startup_s,
        spread_s=0.1,
        preemption_notice_s=30.0 if capacity_type == "SPOT" else 0.0,
        flex_wait_s=20.0 if is_flex else 0.0,
        max_run_s=_LONGEST_FLEX_S if is_flex else None,
    )
