"""What a flavor is: its capacity type, its accelerator, its zones, how many stand on a node. Pure.

The rule: what machines say of themselves comes first (labels of the flavor, then of its nodes),
then what the queue does to get them (a ProvisioningRequest check), then what ops wrote. Each answer
carries where it comes from, and nothing is guessed: what nobody says is None. Where ops say
something else than the machines, both are told. Read ``describe`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regions.kueue import accelerators
from regions.kueue.objects.node import ZONE, Node
from regions.kueue.objects.resource_flavor import ResourceFlavor

RESERVED, ON_DEMAND, SPOT, FLEX = "RESERVED", "ON_DEMAND", "SPOT", "FLEX"

PROVISIONING = "cloud.google.com/gke-provisioning"
RESERVATION = "cloud.google.com/reservation-name"
MAX_RUN = "cloud.google.com/gke-max-run-duration-seconds"

_BY_LABEL: tuple[tuple[str, Mapping[str, str]], ...] = (
    # The first that is there decides: what is special about a machine, then the general word.
    ("cloud.google.com/gke-queued", {"true": FLEX}),
    ("cloud.google.com/gke-flex-start", {"true": FLEX}),
    ("cloud.google.com/gke-spot", {"true": SPOT}),
    ("cloud.google.com/gke-preemptible", {"true": SPOT}),
    (
        PROVISIONING,
        {"standard": ON_DEMAND, "spot": SPOT, "preemptible": SPOT, "flex-start": FLEX},
    ),
    ("karpenter.sh/capacity-type", {"spot": SPOT, "on-demand": ON_DEMAND, "reserved": RESERVED}),
    ("eks.amazonaws.com/capacityType", {"SPOT": SPOT, "ON_DEMAND": ON_DEMAND}),
    ("kubernetes.azure.com/scalesetpriority", {"spot": SPOT, "regular": ON_DEMAND}),
)
FLEX_CLASS = "queued-provisioning.gke.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSettings:
    """What ops wrote of a flavor in the region's configuration. Empty or None: nothing."""

    capacity_type: str = ""
    accelerator: str = ""
    accelerators_per_node: int | None = None
    zones: tuple[str, ...] = ()
    max_nodes: int | None = None
    startup_s: float | None = None
    preemption_notice_s: float | None = None
    max_run_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A word, and who says it. Both empty: nobody does."""

    word: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a flavor is. ``doubts`` are sentences for ops: what is missing, what disagrees."""

    flavor: str
    capacity_type: Answer
    accelerator: Answer
    accelerators_per_node: int | None
    zones: tuple[str, ...]
    max_run_s: float | None
    doubts: tuple[str, ...]


def describe(
    flavor: ResourceFlavor,
    nodes: Iterable[Node],
    settings: FlavorSettings = FlavorSettings(),
    check_classes: Iterable[str] = (),
) -> Description:
    """Say what a flavor is.

    ``nodes`` are those that stand there now, ``check_classes`` the provisioning classes by which
    the queue asks for its nodes.
    """
    own = tuple(each for each in nodes if is_of(each, flavor))
    capacity, others = _capacity_type(flavor, own, settings, tuple(check_classes))
    accelerator = _accelerator(flavor, own, settings)
    name = flavor.meta.name
    doubts = [
        f"flavor {name}: {capacity.source} says {capacity.word}, {other.source} {other.word}"
        for other in others
        if other.word != capacity.word
    ]
    if not capacity.word:
        doubts.append(untold(name, "which capacity type it is", "capacity_type"))
    if not accelerator.word:
        doubts.append(untold(name, "which accelerator it has", "accelerator"))
    return Description(
        flavor=name,
        capacity_type=capacity,
        accelerator=accelerator,
        accelerators_per_node=_per_node(flavor, own, settings),
        zones=_zones(flavor, own, settings),
        max_run_s=_max_run_s(flavor, own, settings),
        doubts=tuple(doubts),
    )


def untold(flavor: str, what: str, setting: str) -> str:
    """Return the doubt about a flavor of which nobody says something, with what would end it."""
    return f"flavor {flavor}: nothing says {what}; {setting} in [clusters.flavors.NAME] would"


def is_of(node: Node, flavor: ResourceFlavor) -> bool:
    """Whether a node is one of a flavor's. A flavor without labels is of every node."""
    labels = node.meta.labels
    return all(labels.get(key) == value for key, value in flavor.node_labels.items())


def capacity_of(labels: Mapping[str, str]) -> Answer:
    """Return the capacity type that labels tell."""
    told = ((key, words.get(labels.get(key, ""))) for key, words in _BY_LABEL)
    key, word = next(((key, word) for key, word in told if word), ("", ON_DEMAND))
    if word == ON_DEMAND and (held := labels.get(RESERVATION)):
        # A reserved machine is a standard one to whoever starts it; only this label tells.
        return Answer(word=RESERVED, source=f"label {RESERVATION}={held}")
    return Answer(word=word or "", source=f"label {key}={labels[key]}") if key else Answer()


def _capacity_type(
    flavor: ResourceFlavor,
    nodes: tuple[Node, ...],
    settings: FlavorSettings,
    check_classes: tuple[str, ...],
) -> tuple[Answer, tuple[Answer, ...]]:
    """Return the answer that counts, and those of whoever else says something."""
    answers = [capacity_of(flavor.node_labels), _agreed(capacity_of(n.meta.labels) for n in nodes)]
    if FLEX_CLASS in check_classes:
        answers.append(Answer(word=FLEX, source=f"the queue's check of class {FLEX_CLASS}"))
    if settings.capacity_type:
        answers.append(Answer(word=settings.capacity_type, source="the region's configuration"))
    said = [each for each in answers if each.word]
    return (said[0], tuple(said[1:])) if said else (Answer(), ())


def _agreed(answers: Iterable[Answer]) -> Answer:
    """Return what all nodes say; when they differ, none speaks for the flavor."""
    found = set(answers)
    if len({each.word for each in found}) != 1:
        return Answer()
    first = min(found, key=lambda each: each.source)
    return Answer(word=first.word, source=f"its nodes' {first.source}") if first.word else first


def _accelerator(
    flavor: ResourceFlavor, nodes: tuple[Node, ...], settings: FlavorSettings
) -> Answer:
    # Here ops come first: what users type is theirs to say, and a label is only its usual name.
    if settings.accelerator:
        return Answer(word=settings.accelerator, source="the region's configuration")
    if word := accelerators.name(flavor.node_labels):
        return Answer(word=word, source="the flavor's labels")
    names = {accelerators.name(each.meta.labels) for each in nodes if _has_any(each)}
    word = names.pop() if len(names) == 1 else ""
    return Answer(word=word, source="its nodes' labels") if word else Answer()


def _per_node(
    flavor: ResourceFlavor, nodes: tuple[Node, ...], settings: FlavorSettings
) -> int | None:
    """Return how many accelerators its nodes have, the smaller number where they differ.

    A node whose driver is not up yet says none, and is not asked.
    """
    if settings.accelerators_per_node is not None:
        return settings.accelerators_per_node
    counts = [accelerators.count(each.allocatable) for each in nodes if _has_any(each)]
    return min(counts) if counts else accelerators.per_node(flavor.node_labels)


def _zones(
    flavor: ResourceFlavor, nodes: tuple[Node, ...], settings: FlavorSettings
) -> tuple[str, ...]:
    if zone := flavor.node_labels.get(ZONE):
        return (zone,)
    return settings.zones or tuple(sorted({each.zone for each in nodes if each.zone}))


def _max_run_s(
    flavor: ResourceFlavor, nodes: tuple[Node, ...], settings: FlavorSettings
) -> float | None:
    """Return how long its nodes stay, the shortest of them; None: until they are given back."""
    all_labels = (flavor.node_labels, *(each.meta.labels for each in nodes))
    told = [labels.get(MAX_RUN, "") for labels in all_labels]
    spans = [float(each) for each in told if each.isascii() and each.isdigit()]
    return min(spans) if spans else settings.max_run_s


def _has_any(node: Node) -> bool:
    return accelerators.count(node.allocatable) > 0
