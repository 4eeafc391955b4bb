"""Where an order is to run: what is seen not to be there refuses it, what is not seen does not."""

from dataclasses import replace
from typing import Any

import pytest

from regions.kueue import names
from regions.kueue.manifest import CannotQueueError
from regions.kueue.objects.cluster_queue import read_cluster_queue
from regions.kueue.objects.kinds import Unreadable
from regions.kueue.objects.priority_class import PriorityClass
from regions.kueue.objects.reading import Fields
from regions.kueue.objects.resource_flavor import read_resource_flavor
from regions.kueue.profiles import Profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.site import Site
from regions.kueue.sites import KueueSettings, NotSeenError, classes_for, site_of
from regions.kueue.snapshot import Seen, Snapshot
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.making import make_profile, make_queue
from tests.unit.regions.kueue.tellings import make_local_queue, make_meta, make_node
from tests.unit.regions.kueue.test_members import known

LABELS = {"cloud.google.com/gke-spot": "true"}
SETTINGS = KueueSettings(
    cluster="west",
    region="europe-west4",
    queues=QueueSettings(namespace="training", queues=frozenset({"ours", "gone"})),
    profiles=Profiles(default=make_profile(), flavors={}),
    is_gke=True,
)


def make_snapshot(**changes: Any) -> Snapshot:
    queue = read_cluster_queue(
        Fields(kube.cluster_queue("cq", quotas={"h100-spot": {"nominalQuota": 8}})), "v1beta2"
    )
    flavor = read_resource_flavor(Fields(kube.flavor("h100-spot", labels=LABELS)), "v1beta2")
    labels = {**LABELS, "cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    node = make_node(meta=make_meta("node-0", labels=labels))
    snapshot = Snapshot(
        cluster_queues=replace(known(), objects={"cq": queue}),
        local_queues=known(make_local_queue()),
        cohorts=known(),
        flavors=replace(known(), objects={"h100-spot": flavor}),
        topologies=known(),
        checks=known(),
        provisioning=known(),
        workloads=known(),
        nodes=known(node),
        pods=known(),
    )
    return replace(snapshot, **changes)


MADE = {names.MANAGED_BY: names.MANAGER, names.PART: names.MEMBER_PART}


def make_classes(**changes: Any) -> Seen[PriorityClass]:
    named = enumerate(("low", "high"))
    found = {
        name: PriorityClass(meta=replace(make_meta(name), labels=MADE), value=at)
        for at, name in named
    }
    return replace(known(), objects=found, **changes)


def find(
    snapshot: Snapshot | None = None, classes: Seen[PriorityClass] | None = None, **changes: Any
) -> Site:
    order = make_queue(gang={"accelerator": "H100"}, **changes)
    return site_of(order, snapshot or make_snapshot(), classes or make_classes(), SETTINGS)


def test_a_site_is_the_flavor_as_it_is_seen() -> None:
    site = find()
    assert (site.namespace, site.region, site.node_labels) == ("training", "europe-west4", LABELS)
    assert site.priority_classes == {"low": 0, "high": 1}
    assert site.accelerator_label == "nvidia-h100-80gb"


def test_without_names_the_classes_are_those_of_the_setup_and_never_others() -> None:
    theirs = PriorityClass(meta=make_meta("theirs"), value=0)
    ours = PriorityClass(meta=replace(make_meta("ours"), labels=MADE), value=-5)
    assert classes_for([theirs, ours], frozenset()) == {"ours": -5}
    assert classes_for([theirs], frozenset()) == {}
    assert classes_for([theirs, ours], frozenset({"theirs", "gone"})) == {"theirs": 0}


@pytest.mark.parametrize("change", [{"queue": "theirs"}, {"queue": "gone"}, {"flavor": "tpu"}])
def test_what_is_seen_not_to_be_there_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CannotQueueError):
        find(**change)


@pytest.mark.parametrize("unseen", ["local_queues", "flavors"])
def test_what_cannot_be_seen_is_not_refused(unseen: str) -> None:
    with pytest.raises(NotSeenError):
        find(make_snapshot(**{unseen: known(is_known=False)}))


@pytest.mark.parametrize(
    ("kind", "key"), [("local_queues", "training/ours"), ("flavors", "h100-spot")]
)
def test_what_is_there_and_cannot_be_read_is_not_refused(kind: str, key: str) -> None:
    odd = {key: Unreadable(key=key, uid="", reason="odd")}
    with pytest.raises(NotSeenError):
        find(make_snapshot(**{kind: known(unreadable=odd)}))


def test_a_gang_waits_for_the_classes_that_keep_it_from_preempting_others() -> None:
    with pytest.raises(NotSeenError):
        find(classes=known(is_known=False))
    denied = known(is_known=False, is_denied=True)
    assert find(classes=denied).priority_classes == {}
