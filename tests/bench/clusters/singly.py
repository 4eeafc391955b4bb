"""One run at a time: from SubmitRun, or a JobSet's creation, to the command's first word.

What "hedged" is here: no policy of the three regions bears any wait, and brokerd may not see their
machines, so that no leg is known to start. The run's legs go to all three, each brings up a gang,
and the first that stands whole at its gate is granted. Machines stand free in each, so that what is
measured is the broker's way and not a cloud's.

Read ``measure`` and ``measure_hedged``.
"""

from __future__ import annotations

from broker.v1 import region_pb2
from tests.bench.clusters.ground import NARROW, NEAR, SEEING, ZONES, Ground
from tests.bench.clusters.racing import Taken, ratio, said, singly
from tests.bench.clusters.sides import MultiKueue, Ours, Straight
from tests.bench.figure import Figure
from tests.cluster.rig.brokerd import Brokerd

CAUSES = ("quota", "capacity", "partial", "pods", "content")


def measure(ground: Ground) -> list[Figure]:
    """One region is enough: machines are seen to stand free there."""
    managed = MultiKueue(ground.manager(), ground)
    side = Ours("ours", ground.brokerd("first", SEEING), ground, SEEING.namespace)
    taken = singly(ground, [Straight(ground, [NEAR]), side, managed], "near")
    side.close()
    return figures(taken, side.name, "one region is enough", "<= 2.5", "")


def measure_hedged(ground: Ground) -> list[Figure]:
    """A leg in each of three regions, and the first whole gang trains."""
    managed = MultiKueue(ground.manager(), ground)
    brokerd = ground.brokerd("hedged", NARROW)
    hedge(brokerd)
    side = Ours("hedged", brokerd, ground, NARROW.namespace)
    taken = singly(ground, [Straight(ground, [NEAR]), side, managed], "wide")
    rounds = range(1, ground.size.singles + 1)
    legs = [side.regions_of(f"{side.name}-wide-{number}") for number in rounds]
    wide = sum(regions == set(ZONES) for regions in legs)
    side.close()
    told = (
        f"; {wide} of {len(rounds)} runs had their leg in each region; no wait is borne, free"
        " machines are there and not seen, the first whole gang is granted"
    )
    return figures(taken, side.name, "hedged over three regions", "<= 3", told)


def hedge(brokerd: Brokerd) -> None:
    """Have each run wait everywhere at once: no wait for anything is borne."""
    with brokerd.client() as client:
        for region in ZONES:
            policy: region_pb2.Policy = client.regions.policy(region)
            policy.hedge_width = len(ZONES)
            for cause in CAUSES:
                getattr(policy.patience, cause).FromSeconds(0)
            client.regions.set_policy(region, policy)


def figures(taken: Taken, side: str, what: str, aim: str, told: str) -> list[Figure]:
    """Return our seconds over a JobSet's, and over MultiKueue's."""
    ours, managed = said(taken, side), said(taken, MultiKueue.name)
    return [
        Figure(
            name=f"SubmitRun to training, {what}",
            value=ratio(taken, side, Straight.name),
            aim=aim,
            unit="ratio",
            anchor=f"{ours} s over a JobSet's {said(taken, Straight.name)} s{told}",
        ),
        Figure(
            name=f"SubmitRun to training, {what}, over MultiKueue",
            value=ratio(taken, side, MultiKueue.name),
            aim="< 1",
            unit="ratio",
            anchor=f"{ours} s over {managed} s from the JobSet at the manager, same three workers",
        ),
    ]
