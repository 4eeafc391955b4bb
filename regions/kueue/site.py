"""Where a gang is to run: what of a cluster and of one flavor in it shapes the objects sent. Pure.

The rule: every fact is handed in; nothing is looked up and nothing guessed. Read ``Site`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regions.kueue.objects.taints import Taint
from regions.kueue.profiles import Profile, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often launchers look, and how long they try, in seconds; see ``launcher.settings``."""

    gate_poll_s: float = 1.0
    gate_fresh_s: float = 15.0
    control_poll_s: float = 3.0
    report_s: float = 5.0
    end_retry_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A region's store that is ``gs://bucket/folder``; ``endpoint`` empty: Google serves it."""

    location: str
    endpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One flavor of one queue of one cluster.

    ``node_labels`` and ``taints`` are the flavor's own, ``topology`` is the name of its Topology
    (empty: none) and ``levels`` are that one's, None where it is not seen. ``accelerator_label``:
    on GKE, the node label's value for the accelerator that is wanted, empty elsewhere.
    ``priority_classes`` are the cluster's classes for our gangs, by name.
    ``bucket``: the region's store, where it is one; else a process finds it where its profile says.
    ``store_reach``: where the region's store is on the network, as every gang of it needs it.
    ``window_s``: how long a machine that is taken back leaves to its pods, as its pool is told to;
    None: nobody tells.
    """

    namespace: str
    cluster: str
    region: str
    is_gke: bool
    node_labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    topology: str
    levels: tuple[str, ...] | None
    priority_classes: Mapping[str, int]
    profile: Profile
    accelerator_label: str = ""
    bucket: Bucket | None = None
    store_reach: tuple[Reach, ...] = ()
    window_s: float | None = None
    pace: Pace = field(default_factory=Pace)


def own_class(classes: Mapping[str, int], priority: int) -> str:
    """Return the class of a gang that was granted, by its run's priority; empty: there is none.

    It is never the lowest, in which gangs wait: what trains would be preempted by who waits in any
    other. Where that is the only one it is that.
    """
    lowest = min(classes.values(), default=0)
    rest = {name: value for name, value in classes.items() if value > lowest}
    return priority_class(rest or classes, priority)


def priority_class(classes: Mapping[str, int], priority: int) -> str:
    """Return the class that stands for a priority: the highest that is not above it.

    A priority below every class gets the lowest, the one that preempts nobody. Empty: there is no
    class. Of two with one value it is the first by name, so that it is the same each time.
    """
    if not classes:
        return ""
    ranked = sorted(classes.items(), key=lambda each: (-each[1], each[0]))
    return next((name for name, value in ranked if value <= priority), ranked[-1][0])
