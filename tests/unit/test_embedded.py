"""The embedded default: its machines cost what the list says that comes with the program."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from broker.embedded import default_worlds


def test_machines_cost_what_the_list_says(tmp_path: Path) -> None:
    prices = {
        (world.region, flavor.capacity_type): flavor.price_per_gpu_hour
        for world in default_worlds(tmp_path).values()
        for flavor in world.flavors
    }
    spot = {"us-east4": "1.86", "europe-west1": "2.04", "us-central1": "2.37"}
    assert prices == {
        (region, capacity_type): Decimal(price)
        for region, of_spot in spot.items()
        for capacity_type, price in (("SPOT", of_spot), ("ON_DEMAND", "11.06"), ("FLEX", "4.79"))
    }
