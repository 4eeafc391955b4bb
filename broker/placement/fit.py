"""Whether a flavor could ever take an intent: what neither time nor luck changes.

The rule: these checks read what the user wants, what a flavor is and what ops allow, and nothing
that passes by itself; so their answer holds for every run of the same demand at once. The first
that answers is the one kept. Read ``misfit``.
"""

from broker.model.capacity import FlavorFacts
from broker.model.intent import (
    CapacityType,
    HardwareOption,
    Terms,
    TopologyWish,
    Workload,
    lies_within,
)
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason

# Reasons that time alone does not lift: an intent refused by these everywhere never fits.
NEVER = frozenset(
    {
        Reason.ACCELERATOR_MISMATCH,
        Reason.SHAPE_TOO_LARGE,
        Reason.QUOTA_TOO_SMALL,
        Reason.REGION_NOT_ACCEPTED,
        Reason.CAPACITY_TYPE_NOT_ACCEPTED,
        Reason.RESIDENCY,
        Reason.POLICY_DISALLOWS,
        Reason.INPUT_NOT_READABLE,
        Reason.SECRETS_NOT_KEPT,
        Reason.TOPOLOGY_NOT_OFFERED,
    }
)

Answer = tuple[Reason, str] | None


def misfit(
    workload: Workload,
    terms: Terms,
    option: HardwareOption,
    flavor: FlavorFacts,
    policy: RegionPolicy,
) -> Answer:
    """Return why the flavor can never take the hardware option, or None; always of ``NEVER``."""
    return (
        _accelerator(option, flavor)
        or accepted(terms, flavor)
        or shape(option, flavor)
        or _close(option, flavor)
        or _allowed(policy, flavor)
        or _readable(workload, flavor)
        or _secrets(workload, flavor)
    )


def accepted(terms: Terms, flavor: FlavorFacts) -> Answer:
    """Return why the user's terms leave the flavor out, or None."""
    if terms.regions and flavor.region not in terms.regions:
        return Reason.REGION_NOT_ACCEPTED, f"the run does not accept {flavor.region}"
    if flavor.capacity_type not in terms.capacity_types:
        kind = words_of(flavor.capacity_type)
        return Reason.CAPACITY_TYPE_NOT_ACCEPTED, f"the run does not accept {kind}"
    if not lies_within(flavor.region, terms.residency):
        allowed = ", ".join(terms.residency)
        return Reason.RESIDENCY, f"its data may not leave {allowed}"
    return None


def shape(option: HardwareOption, flavor: FlavorFacts) -> Answer:
    """Return why the gang is too large for the flavor's nodes, their number or its quota."""
    if option.accelerators_per_node > flavor.accelerators_per_node:
        return (
            Reason.SHAPE_TOO_LARGE,
            (
                f"a node has {flavor.accelerators_per_node} {flavor.accelerator}, "
                f"the run takes {option.accelerators_per_node} on each"
            ),
        )
    if flavor.max_nodes is not None and option.nodes > flavor.max_nodes:
        return (
            Reason.SHAPE_TOO_LARGE,
            f"it grows to {flavor.max_nodes} nodes, the gang has {option.nodes}",
        )
    if flavor.cloud_gpus is not None and option.gpus > flavor.cloud_gpus:
        return (
            Reason.QUOTA_TOO_SMALL,
            (
                f"the project's quota in its cloud is {flavor.cloud_gpus} {flavor.accelerator} "
                f"there, the gang takes {option.gpus}"
            ),
        )
    most = quota_gpus(flavor)
    if most is not None and option.gpus > most:
        return (
            Reason.QUOTA_TOO_SMALL,
            f"the queue's whole quota is {most} {flavor.accelerator}, the gang takes {option.gpus}",
        )
    return None


def quota_gpus(flavor: FlavorFacts) -> int | None:
    """Return the GPUs that the queue could give one gang at most, None when not seen."""
    if flavor.most is not None:
        return flavor.most
    return None if flavor.nominal is None else flavor.nominal + (flavor.borrowable or 0)


def words_of(capacity_type: CapacityType) -> str:
    """Return a capacity type as users write it."""
    return capacity_type.value.lower().replace("_", "-")


def _accelerator(option: HardwareOption, flavor: FlavorFacts) -> Answer:
    if flavor.accelerator == option.accelerator:
        return None
    return (
        Reason.ACCELERATOR_MISMATCH,
        f"it has {flavor.accelerator}, the run takes {option.accelerator}",
    )


def _close(option: HardwareOption, flavor: FlavorFacts) -> Answer:
    is_required = option.topology is TopologyWish.REQUIRED and option.nodes > 1
    if not (is_required and flavor.not_close):
        return None
    return Reason.TOPOLOGY_NOT_OFFERED, flavor.not_close


def _allowed(policy: RegionPolicy, flavor: FlavorFacts) -> Answer:
    if not policy.is_allowed:
        return Reason.POLICY_DISALLOWS, f"ops do not allow {flavor.region}"
    if flavor.capacity_type not in policy.capacity_types:
        kind = words_of(flavor.capacity_type)
        return Reason.POLICY_DISALLOWS, f"ops do not allow {kind} in {flavor.region}"
    return None


def _readable(workload: Workload, flavor: FlavorFacts) -> Answer:
    for one in workload.inputs:
        if one.regions and flavor.region not in one.regions and not one.remote_reads:
            return Reason.INPUT_NOT_READABLE, f"{one.uri} may only be read in its own regions"
    return None


def _secrets(workload: Workload, flavor: FlavorFacts) -> Answer:
    if flavor.keeps_secrets or not workload.secrets:
        return None
    name = workload.secrets[0].name
    return Reason.SECRETS_NOT_KEPT, f"{flavor.key.cluster} keeps no secrets, the run names {name}"
