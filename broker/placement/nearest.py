"""What would fit, where an intent never does: the least change that a place would take.

The rule: a suggestion is judged by the very checks that refused the intent (``fit.misfit``), so
that what is suggested is not refused in its turn. The same GPUs in another shape come first, then
the same in a place or of a kind that the terms leave out, then fewer, then other accelerators;
residency and what ops forbid are never suggested away. Read ``never_fits`` first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from broker.model.capacity import ClusterFacts, FlavorFacts
from broker.model.intent import HardwareOption, Intent, Terms, Workload
from broker.model.reasons import Reason
from broker.placement.fit import misfit, quota_gpus, words_of
from broker.placement.view import View

KINDS_SHOWN = 10  # kinds of accelerator in a sentence
SHOWN = 3  # places named in a sentence; explain shows them all
NODES_MAX = 1024  # of a gang, as intents may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The nearest thing that would fit: a hardware option, where, and what the terms must add.

    ``add_region`` and ``add_capacity_type`` say whether the terms leave the place out.
    """

    option: HardwareOption
    flavor: FlavorFacts
    add_region: bool
    add_capacity_type: bool

    @property
    def sentence(self) -> str:
        """What to ask for, in words."""
        option, flavor = self.option, self.flavor
        per_node, kind = option.accelerators_per_node, words_of(flavor.capacity_type)
        has = f"{flavor.accelerators_per_node} x {flavor.accelerator}"
        nodes = f"{option.nodes}x" if option.nodes > 1 else ""
        shape = f"{nodes}{per_node}x{option.accelerator}"
        fields = f"nodes: {option.nodes}, accelerators_per_node: {per_node}"
        added = [f"region {flavor.region}"] if self.add_region else []
        added += [f"capacity type {kind}"] if self.add_capacity_type else []
        once = f", once the run accepts {' and '.join(added)}" if added else ""
        where = f"{flavor.region} ({kind}) has nodes with {has}"
        return f"{where}, and would take {shape} ({fields}){once}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """An intent that no place can ever take: the sentence why, and what would fit, if anything."""

    message: str
    nearest: Nearest | None


def never_fits(view: View, intent: Intent, terms: Terms) -> NeverFits | None:
    """Return why no place can ever take an intent, None when one could or when it is not known.

    It is known only from a whole picture: every configured cluster was seen and answers. Costs
    little while something fits: the first place that could take it ends the search.
    """
    workload = intent.workload
    for option in workload.hardware:
        for key in view.keys_of.get(option.accelerator, ()):
            flavor = view.flavors[key]
            policy = view.region(flavor.region).policy
            if misfit(workload, terms, option, flavor, policy) is None:
                return None
    return describe(view, workload, terms) if is_whole(view) else None


def is_whole(view: View) -> bool:
    """Return whether every configured cluster, of one or more, was seen whole."""
    known = [facts for facts in view.clusters.values() if facts.is_configured]
    return bool(known) and all(map(is_seen, known))


def is_seen(facts: ClusterFacts) -> bool:
    """Return whether a cluster answers, nothing of it is hidden, and it offers anything.

    One whose only queue was taken away says nothing of what it can take once that is back.
    """
    return facts.is_reachable and not facts.blind and bool(facts.flavors)


def describe(view: View, workload: Workload, terms: Terms) -> NeverFits:
    """Say why nothing takes an intent, and what would be taken."""
    found = nearest(view, workload, terms)
    message = _why(view, workload, terms)
    if found is not None:
        message += f"; {found.sentence}"
    return NeverFits(message=message, nearest=found)


def nearest(view: View, workload: Workload, terms: Terms) -> Nearest | None:
    """Return the least change by which some place would take the intent, None when none would."""
    wanted = workload.hardware
    found = (
        (_distance(option, one), one)
        for option in wanted
        for flavor in view.flavors.values()
        for one in _fitting(view, workload, terms, option, flavor)
    )
    best = min(found, key=lambda some: some[0], default=None)
    return None if best is None else best[1]


def _fitting(
    view: View, workload: Workload, terms: Terms, option: HardwareOption, flavor: FlavorFacts
) -> Iterator[Nearest]:
    """Yield what a flavor would take in place of an option."""
    policy = view.region(flavor.region).policy
    add_region = bool(terms.regions) and flavor.region not in terms.regions
    add_type = flavor.capacity_type not in terms.capacity_types
    widened = terms
    if add_region:
        widened = replace(widened, regions=(*widened.regions, flavor.region))
    if add_type:
        types = (*widened.capacity_types, flavor.capacity_type)
        widened = replace(widened, capacity_types=types)
    for shaped in _shapes(option, flavor):
        if misfit(workload, widened, shaped, flavor, policy) is None:
            yield Nearest(
                option=shaped, flavor=flavor, add_region=add_region, add_capacity_type=add_type
            )


def _shapes(option: HardwareOption, flavor: FlavorFacts) -> Iterator[HardwareOption]:
    """Yield gangs alike to the option that the flavor's nodes and quota could hold."""
    own = replace(option, accelerator=flavor.accelerator)
    yield own
    most_nodes = NODES_MAX if flavor.max_nodes is None else flavor.max_nodes
    for per_node in range(min(option.gpus, flavor.accelerators_per_node), 0, -1):
        if option.gpus % per_node == 0 and option.gpus // per_node <= most_nodes:
            yield replace(own, accelerators_per_node=per_node, nodes=option.gpus // per_node)
            break
    per_node = min(option.accelerators_per_node, flavor.accelerators_per_node)
    quota = quota_gpus(flavor)
    nodes = min(most_nodes, (option.gpus if quota is None else min(quota, option.gpus)) // per_node)
    if nodes > 0:
        yield replace(own, accelerators_per_node=per_node, nodes=nodes)


def _distance(wanted: HardwareOption, found: Nearest) -> tuple[object, ...]:
    """Return how far a suggestion is from an option, smallest first; a total order."""
    option, flavor = found.option, found.flavor
    lost = wanted.gpus - option.gpus
    price = flavor.price_per_gpu_hour
    return (
        _bare(option.accelerator) != _bare(wanted.accelerator),
        lost > 0,
        found.add_region + found.add_capacity_type,
        option.accelerators_per_node != wanted.accelerators_per_node,
        lost,
        price is None,
        price or Decimal(0),
        flavor.key,
        option.nodes,
    )


def _why(view: View, workload: Workload, terms: Terms) -> str:
    """Return in words why no place can ever take the intent."""
    flavors = [
        (option, view.flavors[key])
        for option in workload.hardware
        for key in view.keys_of.get(option.accelerator, ())
    ]
    if not flavors:
        kinds = sorted({option.accelerator for option in workload.hardware})
        unseen = f"no place can ever take it; no cluster with {' or '.join(kinds)} has been seen"
        return unseen + _meant(kinds, sorted(view.keys_of))
    found = [
        (flavor, answer)
        for option, flavor in flavors
        for answer in (misfit(workload, terms, option, flavor, view.region(flavor.region).policy),)
        if answer is not None
    ]
    # What the user did not ask for explains nothing, unless there is nothing else.
    asked = [one for one in found if one[1][0] not in _NOT_ASKED] or found
    if _is_too_wide(workload, [flavor for flavor, _ in asked]):
        per_node = min(option.accelerators_per_node for option in workload.hardware)
        kind = workload.hardware[0].accelerator
        return f"no place can ever take it; none has nodes with {per_node} x {kind}"
    return "no place can ever take it; " + listed(
        sorted({f"{flavor.region}: {answer[1]}" for flavor, answer in asked})
    )


def _meant(kinds: list[str], seen: list[str]) -> str:
    """Return how a kind that was seen is spelled, or which kinds there are."""
    spelled = {_bare(kind): kind for kind in seen}
    meant = dict.fromkeys(spelled[_bare(kind)] for kind in kinds if _bare(kind) in spelled)
    if meant:
        return f"; it is spelled {' or '.join(meant)}"
    return f", only {', '.join(seen[:KINDS_SHOWN])}" if seen else ""


def _bare(kind: str) -> str:
    """Return a kind of accelerator without what people write differently."""
    return "".join(letter for letter in kind.casefold() if letter.isalnum())


def _is_too_wide(workload: Workload, flavors: list[FlavorFacts]) -> bool:
    """Return whether no node of any flavor has as many accelerators as every option takes."""
    return len({option.accelerator for option in workload.hardware}) == 1 and all(
        option.accelerators_per_node > flavor.accelerators_per_node
        for option in workload.hardware
        for flavor in flavors
    )


def listed(kinds: list[str]) -> str:
    """Return the first few of many in words."""
    shown, rest = kinds[:SHOWN], len(kinds) - SHOWN
    return "; ".join(shown) + (f"; and {rest} more" if rest > 0 else "")


_NOT_ASKED = frozenset({Reason.REGION_NOT_ACCEPTED, Reason.CAPACITY_TYPE_NOT_ACCEPTED})
