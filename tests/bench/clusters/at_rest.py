"""What is asked of a cluster while nothing happens. Read ``measure``."""

from __future__ import annotations

import time

from tests.bench.clusters.counting import OTHERS, WATCHES, requests
from tests.bench.clusters.ground import SEEING, ZONES, Ground
from tests.bench.figure import Figure, median

SETTLES_S = 10.0  # what the start asks is over


def measure(ground: Ground) -> list[Figure]:
    """Count what a brokerd without runs asks."""
    ground.brokerd("idle", SEEING)
    time.sleep(SETTLES_S)
    regions, rest_s = ground.regions.values(), ground.size.rest_s
    before = requests(regions)
    time.sleep(rest_s)
    after = requests(regions)
    a_minute = {flow: (after[flow] - before[flow]) / len(ZONES) * 60 / rest_s for flow in before}
    return [
        Figure(
            name="API requests a minute and cluster, at rest",
            value=median([a_minute[OTHERS]]),
            aim="< 6",
            unit="requests",
            anchor=f"beside {a_minute[WATCHES]:.1f} watches begun anew; counted by the API servers",
        )
    ]
