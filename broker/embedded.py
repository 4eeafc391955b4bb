"""The embedded default: three regions on this machine, for a newcomer, demos and tests.

The rule: it is configuration and nothing else; ``regions.local.spawn`` brings it to life, and what
runs on it is as real as anywhere. Read ``default_worlds`` first.

The regions' names and prices are Google's for one H100 of an a3-highgpu-8g, from the list that
comes with the program (on demand and flex: us-central1's). Machines come within seconds, so that
nobody need wait.
"""

from decimal import Decimal
from pathlib import Path
from typing import Literal

from regions.gcp.prices.book import Ask, Book
from regions.gcp.prices.shipped import shipped
from regions.local.config import FlavorConfig, QueueConfig, QuotaConfig, WorldConfig

QUEUE = "research"
NODES = 16  # of one virtual GPU, and so one process, each
_REGIONS = ("us-east4", "europe-west1", "us-central1")
_LISTED = "us-central1"
_MACHINE = "a3-highgpu-8g"
_CENT = Decimal("0.01")
_LONGEST_FLEX_S = 7 * 86_400.0
_Type = Literal["SPOT", "ON_DEMAND", "FLEX"]


def default_worlds(data: Path) -> dict[Path, WorldConfig]:
    """Return the three clusters' worlds by the directory of each, under a data directory."""
    home = data / "embedded"
    prices = shipped()
    return {home / each: _world(each, home / each / "store", prices) for each in _REGIONS}


def _world(region: str, store: Path, prices: Book) -> WorldConfig:
    flavors = (
        _flavor(region, "SPOT", _price(prices, region, "SPOT"), startup_s=2.0),
        _flavor(region, "ON_DEMAND", _price(prices, _LISTED, "ON_DEMAND"), startup_s=4.0),
        _flavor(region, "FLEX", _price(prices, _LISTED, "FLEX"), startup_s=2.0),
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


def _price(prices: Book, region: str, capacity_type: _Type) -> Decimal:
    ask = Ask(region=region, capacity_type=capacity_type, accelerator="H100", machine=_MACHINE)
    price = prices.quote(ask, 0.0).per_gpu_hour
    assert price is not None, f"the list has no {capacity_type} price of {region}"
    return price.quantize(_CENT)
