"""What is counted beside the time: requests, CPU seconds, bytes.

The rule: requests are counted by the API servers, not by whoever asks. Read ``requests``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.cluster.rig.region import Region

WATCHES, OTHERS = "bench-watches", "bench-others"
FLOW = "flowcontrol.apiserver.k8s.io/v1"
COUNTER = "apiserver_flowcontrol_dispatched_requests_total{"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def requests(regions: Iterable[Region]) -> dict[str, float]:
    """Return how many requests of the counted user all API servers took so far, by flow."""
    total = {WATCHES: 0.0, OTHERS: 0.0}
    for region in regions:
        for line in region.api.raw("GET", "/metrics").decode().splitlines():
            if line.startswith(COUNTER):
                for flow in total:
                    if f'flow_schema="{flow}"' in line:
                        total[flow] += float(line.rpartition(" ")[2])
    return total


def flows(user: str) -> list[dict[str, Any]]:
    """Return the FlowSchemas by which an API server counts a user's watches, and all else."""
    return [_flow(user, WATCHES, 100, ["watch"]), _flow(user, OTHERS, 101, ["*"])]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Return the memory of a process that is in the machine's."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _flow(user: str, name: str, precedence: int, verbs: list[str]) -> dict[str, Any]:
    rules = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [
            {
                "verbs": verbs,
                "apiGroups": ["*"],
                "resources": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            }
        ],
        "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}],
    }
    spec = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [rules],
    }
    return {"apiVersion": FLOW, "kind": "FlowSchema", "metadata": {"name": name}, "spec": spec}
