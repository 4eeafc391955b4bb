"""What is told of a cluster's capacity from outside of it, and what is asked for that."""

from dataclasses import replace

from regions.capacity import ProfileSeen, QueueSeen
from regions.kueue.profile_rules import read_profiles
from regions.kueue.scout import Asked, Bounds, News, Spot, asked_of, bounded, dressed
from regions.kueue.signals import Signals
from tests.unit.regions.kueue.making import STORE
from tests.unit.regions.kueue.tellings import NOW_S, waiting
from tests.unit.regions.kueue.test_queue_view import SPOT_SEEN
from tests.unit.regions.kueue.test_views import Story, gang

FLAVOR = replace(
    SPOT_SEEN, flavor="h100-spot", max_nodes=None, max_run_s=None, preemption_notice_s=None
)
QUEUE = QueueSeen(queue="ours", is_stopped=False, pending=0, pending_gpus=0, flavors=(FLAVOR,))
AT = Spot(queue="ours", flavor="h100-spot")


def test_what_gangs_wait_for_is_asked_about_and_what_runs_is_not() -> None:
    waits = Story().see(gang(), workload=waiting("Pending", "it waits")).values()
    (asked,) = asked_of((QUEUE,), {}, [each.seen for each in waits])
    assert asked == Asked(
        spot=AT, capacity_type="SPOT", accelerator="H100", node_labels={}, nodes=2
    )
    (idle,) = asked_of((QUEUE,), {}, ())
    assert idle == replace(asked, nodes=0)


def test_each_flavor_shows_its_profile_and_what_that_opens() -> None:
    raw = {
        "default": {"store": "/stores/eu", "volumes": [STORE]},
        "flavors": {"h100-spot": {"runs_as_root": True}},
    }
    laid = read_profiles(raw, allows_host_paths=False)
    other = replace(QUEUE, flavors=(FLAVOR, replace(FLAVOR, flavor="h100-flex")))
    (queue,) = dressed((other,), laid)
    own, default = (each.profile for each in queue.flavors)
    mount = ("mount", "/stores/eu: claim checkpoints, the region's store is in it")
    assert default == ProfileSeen(name="default", widens=(), is_restricted=True, parts=(mount,))
    assert own is not None
    assert (own.name, own.is_restricted) == ("h100-spot", False)
    assert "root" in own.widens[0]


def test_bounds_from_outside_fill_in_what_nobody_else_tells() -> None:
    told = {AT: Bounds(max_nodes=4, max_run_s=60.0, window_s=105.0, gpus=16)}
    filled = replace(FLAVOR, max_nodes=4, max_run_s=60.0, preemption_notice_s=105.0, cloud_gpus=16)
    assert bounded((QUEUE,), told)[0].flavors == (filled,)
    own = replace(FLAVOR, max_nodes=9, max_run_s=5.0, preemption_notice_s=1.0, cloud_gpus=16)
    assert bounded((replace(QUEUE, flavors=(own,)),), told)[0].flavors == (own,)
    elsewhere = {Spot(queue="ours", flavor="other"): Bounds(max_nodes=4)}
    assert bounded((QUEUE,), elsewhere) == (QUEUE,)


def test_news_from_outside_is_a_signal_with_its_age_and_source() -> None:
    signals = Signals(0.0)
    news = News(
        spot=AT,
        kind="STOCKOUT",
        age_s=5.0,
        source="GKE node pool condition",
        detail="none\x1b left",
    )
    assert signals.look((), NOW_S, 0.0, (news,)) == signals.look((), NOW_S, 0.0)
    (again,) = signals.look((), NOW_S + 60.0, 60.0)
    assert (again.queue, again.flavor, again.kind) == ("ours", "h100-spot", "STOCKOUT")
    assert (again.age_s, again.source, again.serial) == (65.0, "GKE node pool condition", 1)
    assert "\x1b" not in again.detail
