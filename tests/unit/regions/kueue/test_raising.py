"""What a cluster refused to raise is shown for as long as it is so, whoever else raises it."""

from pathlib import Path

import pytest

from regions.cluster import Cause, Outcome
from regions.kueue import names
from regions.kueue.manifest import JOBSET_API, PRIORITY_LABEL, build
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.making import PACKED, make_queue, make_site
from tests.unit.regions.kueue.ports import ported, seen
from tests.unit.regions.kueue.servers import serving
from tests.unit.regions.kueue.test_sight import OURS, Cluster

GANGS = f"/apis/{JOBSET_API}/namespaces/{OURS}/jobsets"
CLASSES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"


@pytest.mark.parametrize(("has", "is_said"), [("broker-waiting", True), ("broker-run", False)])
async def test_a_refusal_is_said_until_the_gang_is_seen_with_its_priority(
    tmp_path: Path, has: str, is_said: bool
) -> None:
    site, order = make_site(namespace=OURS), make_queue()
    gang = build(order, site, PACKED).jobset
    gang["metadata"] |= {"uid": "of-gang", "resourceVersion": "1"}
    gang["metadata"]["labels"][PRIORITY_LABEL] = has
    cluster = Cluster()
    cluster.objects[GANGS] = [gang]
    ours = {names.MANAGED_BY: names.MANAGER, names.PART: names.MEMBER_PART}
    cluster.objects[CLASSES] = [
        {"metadata": kube.meta(name, labels=ours), "value": value}
        for name, value in site.priority_classes.items()
    ]
    refused = Outcome(is_done=False, cause=Cause.REFUSED, message="jobsets is forbidden")
    async with serving() as server, ported(server, cluster, tmp_path) as port:
        port._orders.refusals.take_in("of-gang", refused)
        shown = (await seen(port)).placements[order.placement]
    assert ("jobsets is forbidden" in shown.warning, shown.warning != "") == (is_said, is_said)
