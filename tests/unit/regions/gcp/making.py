"""Google's messages as tests say them: no argument is valid, a test sets only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.cloud import billing_v1, container_v1
from google.protobuf.timestamp_pb2 import Timestamp

from regions.gcp.prices.reading import read
from regions.gcp.prices.sku import Sku

NOW_S = 1_796_000_000.0
H100_SPOT = "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Virginia"
H100 = "Nvidia H100 80GB GPU running in Americas"


def make_entry(
    description: str = H100,
    usage: str = "OnDemand",
    price: str = "9.796550569",
    *,
    unit: str = "h",
    regions: Iterable[str] = ("us-central1", "us-east4"),
    geography: int = 3,
    currency: str = "USD",
    sku_id: str = "",
    since_s: int = 0,
) -> billing_v1.Sku:
    whole, _, part = price.partition(".")
    nanos = int((part + "000000000")[:9]) * (-1 if price.startswith("-") else 1)
    rate = {
        "start_usage_amount": 0.0,
        "unit_price": {"currency_code": currency, "units": int(whole), "nanos": nanos},
    }
    return billing_v1.Sku(
        name=f"services/6F81-5844-456A/skus/{sku_id or description}",
        sku_id=sku_id or f"{description}/{usage}/{sorted(regions)}",
        description=description,
        category={
            "resource_family": "Compute",
            "resource_group": "GPU",
            "service_display_name": "Compute Engine",
            "usage_type": usage,
        },
        service_regions=list(regions),
        geo_taxonomy={"type_": geography, "regions": list(regions)},
        pricing_info=[
            {
                "effective_time": Timestamp(seconds=since_s),
                "pricing_expression": {"usage_unit": unit, "tiered_rates": [rate]},
            }
        ],
    )


def make_sku(description: str = H100, usage: str = "OnDemand", **rest: Any) -> Sku:
    sku = read(billing_v1.Sku.pb(make_entry(description, usage, **rest)))
    assert isinstance(sku, Sku)
    return sku


def flex_machine(**rest: Any) -> list[billing_v1.Sku]:
    """The parts of an a3-highgpu as flex-start, with Google's prices of August 2025."""
    at = {"regions": ["us-central1"], **rest}
    gpu = "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas"
    disk = "DWS Defined Duration SSD backed Local Storage"
    return [
        make_entry(gpu, price="4.200761", **at),
        make_entry("DWS Defined Duration A3 Core running in Americas", price="0.010934", **at),
        make_entry(
            *("DWS Defined Duration A3 Ram running in Americas",),
            **{"price": "0.000952", "unit": "GiBy.h", **at},
        ),
        make_entry(disk, price="0.080008", unit="GiBy.mo", **at),
    ]


def make_pool(**fields: Any) -> container_v1.NodePool:
    config = {
        "machine_type": "a3-highgpu-8g",
        "accelerators": [{"accelerator_count": 8, "accelerator_type": "nvidia-h100-80gb"}],
        **fields.pop("config", {}),
    }
    given = {"name": "h100", "status": 2, "locations": ["us-central1-a", "us-central1-c"]}
    return container_v1.NodePool(config=config, **{**given, **fields})


def make_cluster(
    name: str = "one", location: str = "us-central1", **fields: Any
) -> container_v1.Cluster:
    return container_v1.Cluster(
        **{
            "name": name,
            "location": location,
            "endpoint": "10.0.0.1",
            "status": 2,
            "node_pools": [make_pool()],
            **fields,
        }
    )


def make_listing(
    *clusters: container_v1.Cluster, missing: Iterable[str] = ()
) -> container_v1.ListClustersResponse:
    return container_v1.ListClustersResponse(clusters=list(clusters), missing_zones=list(missing))
