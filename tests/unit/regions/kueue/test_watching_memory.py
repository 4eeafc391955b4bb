"""What thousands of Workloads take, as they are kept."""

import gc
import random
import tracemalloc

from regions.kueue.objects import kinds
from regions.kueue.watching import Informer
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.clocks import StepClock
from tests.unit.regions.kueue.scripts import Play, Script, page


async def test_a_thousand_workloads_take_little_memory() -> None:
    """What is aimed at is 5,000 in 60 MB, the rest of a cluster included."""
    count = 200

    def workload(at: int) -> kube.Json:
        raw = kube.workload(
            f"jobset-run-{at:05d}-abcde",
            namespace=f"team-{at % 20}",
            admitted_to="cq",
            conditions=tuple(
                kube.condition(each, message=f"It is so in ClusterQueue cq since {at}")
                for each in ("QuotaReserved", "Admitted", "PodsReady", "Evicted")
            ),
        )
        raw["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": f"{at:036d}"}
        raw["metadata"]["managedFields"] = [{f"f:{each}": {} for each in range(100)}]
        container = raw["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": f"V{each}", "value": f"{at}" * 20} for each in range(40)]
        return raw

    script = Script([page(*map(workload, range(count)))], [])
    informer = Informer(
        kinds.WORKLOADS, "v1beta2", script, clock=StepClock(), chance=random.Random(7)
    )
    played = Play([], [])
    played.informer, played.script = informer, script  # type: ignore[assignment]
    tracemalloc.start()
    try:
        await played.to_its_end()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(informer.cache.objects) == count
    assert taken / count < 6_000
