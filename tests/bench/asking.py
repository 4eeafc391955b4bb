"""``broker status`` from nothing, over ``python -c "import grpc"``: what a person waits for.

Read ``measure`` first.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from broker.sdk.intent import parse_intent
from tests.bench.figure import Figure, Size, median
from tests.bench.household import TEAM, Household, as_installed

INTENT = b"""\
workload:
  command: sleep 3600
  hardware:
    - accelerator: H100
      accelerators_per_node: 1
      nodes: 1
terms:
  capacity_types: [spot]
"""


async def measure(size: Size, brokerd: Household) -> list[Figure]:
    async with brokerd.client() as client:
        intent = parse_intent(INTENT, "intent.yaml", {}).message
        run = await client.runs.submit(TEAM, intent)
        status = ["-m", "broker.cli", "--server", brokerd.address, "status", run.name]
        asked, imported = [], []
        for number in range(size.cold_starts + 1):
            both = [await _timed(status), await _timed(["-c", "import grpc"])]
            if number:  # the first round compiles, and fills the page cache
                asked.append(both[0])
                imported.append(both[1])
        await client.runs.cancel(run.name, grace_s=0.0)
    return [
        Figure(
            name="broker status, cold",
            value=median([one / base for one, base in zip(asked, imported, strict=True)]),
            aim="<= 2.5",
            unit="ratio",
            anchor=f'{median(asked):g} s over python -c "import grpc" at {median(imported):g} s',
        )
    ]


async def _timed(words: list[str]) -> float:
    began_s = time.perf_counter()
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *words],
        stdout=subprocess.DEVNULL,
        check=True,
        env=as_installed(),
    )
    return time.perf_counter() - began_s
