"""What an entry of the billing catalog is for."""

from __future__ import annotations

import pytest

from regions.gcp.prices.naming import CORE, DISK, FLEX, GPU, MEMORY, ON_DEMAND, SPOT, Part, classify

IN = "running in Americas"
SPOT_VMS = "attached to Spot Preemptible VMs running in Iowa"
DWS = "attached to DWS Defined Duration VMs running in Americas"
KNOWN = [
    (f"Nvidia H100 80GB GPU {IN}", "OnDemand", GPU, "H100", ON_DEMAND),
    (f"Nvidia H100 80GB GPU {SPOT_VMS}", "Preemptible", GPU, "H100", SPOT),
    (f"Nvidia H100 80GB GPU {DWS}", "OnDemand", GPU, "H100", FLEX),
    (f"Nvidia H100 80GB Mega GPU {IN}", "OnDemand", GPU, "H100-MEGA", ON_DEMAND),
    (f"Nvidia H100 Mega 80GB GPU {IN}", "OnDemand", GPU, "H100-MEGA", ON_DEMAND),
    (f"Nvidia H100 80GB Plus GPU {IN}", "OnDemand", GPU, "H100-MEGA", ON_DEMAND),
    (f"H200 141GB GPU {IN}", "OnDemand", GPU, "H200", ON_DEMAND),
    (f"H200 141GB GPU {SPOT_VMS}", "Preemptible", GPU, "H200", SPOT),
    (f"Nvidia Tesla A100 GPU {IN}", "OnDemand", GPU, "A100", ON_DEMAND),
    (f"Nvidia Tesla A100 80GB GPU {IN}", "OnDemand", GPU, "A100-80GB", ON_DEMAND),
    (f"Nvidia L4 GPU {SPOT_VMS}", "Preemptible", GPU, "L4", SPOT),
    (f"A4 Nvidia B200 (1 gpu slice) {IN}", "OnDemand", GPU, "B200", ON_DEMAND),
    (f"Spot Preemptible A4 Nvidia B200 (1 gpu slice) {IN}", "OnDemand", GPU, "B200", SPOT),
    (f"A3 Instance Core {IN}", "OnDemand", CORE, "A3", ON_DEMAND),
    (f"A3Plus Instance Ram {IN}", "OnDemand", MEMORY, "A3Plus", ON_DEMAND),
    (f"Spot Preemptible A3Ultra Instance Core {IN}", "Preemptible", CORE, "A3Ultra", SPOT),
    (f"DWS Defined Duration A3 Ram {IN}", "OnDemand", MEMORY, "A3", FLEX),
    ("SSD backed Local Storage in Iowa", "OnDemand", DISK, "", ON_DEMAND),
    (
        "SSD backed Local Storage attached to Spot Preemptible VMs in Iowa",
        *("Preemptible", DISK, "", SPOT),
    ),
    ("DWS Defined Duration SSD backed Local Storage", "OnDemand", DISK, "", FLEX),
]
NOT_OURS = [
    f"Commitment v1: Nvidia H100 80GB GPU {IN} for 1 Year",
    "DWS Calendar Mode Nvidia H100 80GB GPU running in Americas",
    f"Reserved Nvidia H100 80GB GPU {IN}",
    f"Vertex AI: Training/Pipelines on Nvidia H100 80GB GPU {IN}",
    f"Nvidia Tesla T4 Virtual Workstation GPU {IN}",
    f"A3 Custom Instance Core {IN}",
    f"N2 Instance Core {IN}",
    f"Nvidia H1000 80GB GPU {IN}",
    f"A2 Sole Tenancy Instance Core {IN}",
    "",
]


@pytest.mark.parametrize(("description", "usage", "kind", "thing", "capacity_type"), KNOWN)
def test_a_description_tells_what_an_entry_is_for(
    description: str, usage: str, kind: str, thing: str, capacity_type: str
) -> None:
    assert classify(description, usage) == Part(kind=kind, thing=thing, capacity_type=capacity_type)


@pytest.mark.parametrize("description", NOT_OURS)
def test_what_is_sold_in_another_way_is_passed_over(description: str) -> None:
    assert classify(description, "OnDemand") is None


@pytest.mark.parametrize(
    ("description", "usage"),
    [
        (f"Nvidia H100 80GB GPU {IN}", "Preemptible"),
        (f"Nvidia H100 80GB GPU {IN}", "Commit1Yr"),
        (f"Nvidia H100 80GB GPU {SPOT_VMS}", "Commit1Yr"),
        (f"Nvidia H100 80GB GPU {DWS}", "CalendarMode"),
        (f"Nvidia H100 80GB GPU {IN}", ""),
    ],
)
def test_a_usage_type_that_contradicts_the_description_makes_it_doubtful(
    description: str, usage: str
) -> None:
    assert classify(description, usage) == f"{description!r} has the usage type {usage!r}"


def test_spot_and_flex_at_once_is_doubtful() -> None:
    both = f"DWS Defined Duration A3 Core attached to Spot Preemptible VMs {IN}"
    assert classify(both, "OnDemand") == f"{both!r} is called spot and flex-start at once"
