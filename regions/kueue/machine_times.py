"""Since when a gang has its machines, and until when. Pure.

The rule: what a machine is told itself counts before what was agreed of it. Read ``history`` first.
"""

from collections.abc import Iterable

from regions.kueue.explanation import Evidence
from regions.kueue.members import Member


def ends_s(evidence: Evidence) -> float | None:
    """Return in how many seconds the first of a gang's machines ends as planned, None for none.

    What the machine itself is told counts: how long it should have stayed is not when it goes.
    """
    nodes = evidence.nodes or {}
    own = (nodes.get(pod.node) for pod in evidence.pods if pod.node and not pod.is_over)
    times = (node.planned_end_s for node in own if node is not None)
    ends = [at_s for at_s in times if at_s is not None]
    return max(0.0, min(ends) - evidence.now_s) if ends else None


def history(members: Iterable[Member], now_s: float) -> tuple[tuple[float, int], ...]:
    """Return since how many seconds there are how many nodes, oldest first."""
    steps: dict[float, int] = {}
    for one in members:
        came_s = one.created_s if one.bound_s is None else one.bound_s
        steps[came_s] = steps.get(came_s, 0) + 1
        if one.left_s is not None:
            left_s = max(came_s, one.left_s)
            steps[left_s] = steps.get(left_s, 0) - 1
    found, nodes = [], 0
    for at_s in sorted(steps):
        if steps[at_s]:
            nodes += steps[at_s]
            found.append((max(0.0, now_s - at_s), nodes))
    return tuple(found)
