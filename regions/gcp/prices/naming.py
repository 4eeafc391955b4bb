"""What an entry of the billing catalog is for. Pure.

The rule: its description decides, and its usage type must not contradict it. Google reports
flex-start as OnDemand, and some spot entries too, so the usage type alone would take half a price
for a whole one. What is not understood for certain is no price: ``classify`` returns None for what
is not ours, and a sentence for what looks ours and is doubtful. Read ``classify`` first.
"""

import re
from dataclasses import dataclass

ON_DEMAND, SPOT, FLEX = "ON_DEMAND", "SPOT", "FLEX"
GPU, CORE, MEMORY, DISK = "GPU", "CORE", "MEMORY", "DISK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a machine is billed for. ``thing`` is an accelerator, or a host's family."""

    kind: str
    thing: str
    capacity_type: str


_NOT_OURS = re.compile(
    r"^Commitment|^Reserved |\bReservation\b|Calendar Mode|Sole Tenancy|\bCustom\b|\bPremium\b"
    r"|Virtual Workstation|\bVWS\b|Vertex|Management Fee|Confidential|Suspended",
    re.IGNORECASE,
)
_FLEX = re.compile(r"DWS Defined Duration|Flex[- ]Start", re.IGNORECASE)
_SPOT = re.compile(r"\b(?:Spot|Preemptible)\b", re.IGNORECASE)
_AGREEING = {
    # Descriptions are right where they differ, and these are the ways in which they do.
    ON_DEMAND: frozenset({"OnDemand"}),
    SPOT: frozenset({"Preemptible", "OnDemand"}),
    FLEX: frozenset({"Preemptible", "OnDemand"}),
}

_PLACE = r"(?: attached to [\w -]+ VMs)?(?: running)? in .+"
_LEAD = r"(?:Spot Preemptible |Preemptible |DWS Defined Duration |Flex[- ]Start )?"
_GPUS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{_LEAD}(?:Nvidia )?(?:Tesla )?{form}{_PLACE}", re.IGNORECASE), thing)
    for form, thing in (
        # Three spellings of one card, seen at once in different regions.
        (r"H100 80GB (?:Mega|Plus) GPU", "H100-MEGA"),
        (r"H100 Mega 80GB GPU", "H100-MEGA"),
        (r"H100 80GB GPU", "H100"),
        (r"H200 141GB GPU", "H200"),
        (r"A100 80GB GPU", "A100-80GB"),
        (r"A100 GPU", "A100"),
        (r"L4 GPU", "L4"),
        (r"(?:A4 Nvidia )?B200 \(1 gpu slice\)", "B200"),
    )
)
_HOST = re.compile(
    rf"{_LEAD}(A2|A3|A3Plus|A3Ultra|G2) (?:Instance )?(Core|Ram){_PLACE}", re.IGNORECASE
)
_HOSTS = {"a2": "A2", "a3": "A3", "a3plus": "A3Plus", "a3ultra": "A3Ultra", "g2": "G2"}
_DISK = re.compile(rf"{_LEAD}SSD backed Local Storage(?:{_PLACE})?", re.IGNORECASE)


def classify(description: str, usage_type: str) -> Part | str | None:
    """Say what an entry is for: a part, a sentence why that is in doubt, or None for not ours."""
    named = _named(description)
    if named is None or _NOT_OURS.search(description):
        return None
    kind, thing = named
    capacity_type = _capacity_type(description)
    if capacity_type == "":
        return f"{description!r} is called spot and flex-start at once"
    if usage_type not in _AGREEING[capacity_type]:
        return f"{description!r} has the usage type {usage_type[:40]!r}"
    return Part(kind=kind, thing=thing, capacity_type=capacity_type)


def _named(description: str) -> tuple[str, str] | None:
    for form, thing in _GPUS:
        if form.fullmatch(description):
            return GPU, thing
    if host := _HOST.fullmatch(description):
        return (CORE if host[2].lower() == "core" else MEMORY), _HOSTS[host[1].lower()]
    if _DISK.fullmatch(description):
        return DISK, ""
    return None


def _capacity_type(description: str) -> str:
    is_flex, is_spot = bool(_FLEX.search(description)), bool(_SPOT.search(description))
    if is_flex and is_spot:
        return ""
    return FLEX if is_flex else SPOT if is_spot else ON_DEMAND
