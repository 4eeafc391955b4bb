"""What our objects in a cluster are called, and what is written on them. Pure.

The rule: a name follows from the placement alone, so that a command that is repeated meets the
object of its first time; two placements never share one; and every name that the cluster derives
from ours (job, pod, host, service) is a DNS label too. Read ``jobset_name`` first.
"""

import hashlib
import json
import re
from collections.abc import Mapping

PREFIX = "capacity-broker.dev/"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "capacity-broker"

TEAM, OWNER, RUN, LOG = PREFIX + "team", PREFIX + "owner", PREFIX + "run", PREFIX + "log"
PLACEMENT, CAPACITY_TYPE = PREFIX + "placement", PREFIX + "capacity-type"
RUN_KEY, PART = PREFIX + "run-key", PREFIX + "part"
"""Labels: what people and selectors look for. A value that is no label is written shortened."""

TOLD = PREFIX + "told"
"""The annotation that holds, as JSON, the order's own labels, word for word."""
PLACED, KEYED = PREFIX + "placement-id", PREFIX + "run-key-id"
LAUNCHER_PART, OCCUPIED_PART, MEMBER_PART = "launcher", "occupied", "member"
"""Values of the label ``PART``, of what is no gang: the program, a name that is taken, and what the
cluster was set up with."""
FLAVOR = PREFIX + "flavor"
OFFERED, OWN = PREFIX + "offered-as", PREFIX + "own-priority"
"""Annotations of the JobSet: what the placement is, word for word, the capacity type that it was
offered as, and the priority of its run, which it is raised to with its grant."""
RAISED, RAISED_BY = PREFIX + "granted-priority", 1_000_000
"""What gangs that an earlier build queued carry instead, and by how much that is more."""
ORDER, SENT = PREFIX + "order", PREFIX + "sent"
"""Annotations with digests: of what stays of an order, for another one of this name is another
gang; and of the whole of it, which tells whether the gang was sent under other terms or policy."""

GANG = "g"
"""The one replicated job of a JobSet. Short, because each pod's name carries it."""
GANG_UID = "jobset.sigs.k8s.io/jobset-uid"
"""The label by which JobSet marks its pods."""
RANK_ANNOTATION = "batch.kubernetes.io/job-completion-index"

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_MAX_SUBDOMAIN = 253
MAX_TOLD = 3500
"""Characters of that annotation; whoever reads objects of others keeps no longer words."""


def jobset_name(placement: str) -> str:
    """Return the name of a placement's JobSet, 43 characters at most.

    The longest name that is derived from it, a pod's, adds ``-g-0-<rank>-<5 letters>``. Plain ids
    and those that had to be digested begin differently, so that neither can look like the other.
    """
    if _PLAIN.fullmatch(placement):
        return f"cb-{placement}"
    return f"cx-{_slug(placement, 24)}-{_digest(placement, 12)}"


def is_set_up(labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels is of those that a cluster was set up with."""
    return labels.get(MANAGED_BY) == MANAGER and labels.get(PART) == MEMBER_PART


def pod_stem(jobset: str, rank: int) -> str:
    """Return the host name of a rank's pod, which is its name but for five random letters."""
    return f"{jobset}-{GANG}-0-{rank}"


def master_address(jobset: str) -> str:
    """Return rank 0's name in the JobSet's headless service, resolved within the namespace."""
    return f"{pod_stem(jobset, 0)}.{jobset}"


def master_port(placement: str) -> int:
    """Return the port at which the gang meets.

    Below the ports that kernels and clusters give out by themselves. It differs between gangs, for
    those that a profile puts into their machine's own network.
    """
    return 20_000 + int(_digest(placement, 8), 16) % 10_000


def launcher_name(packed: bytes) -> str:
    """Return the name of the ConfigMap that holds a launcher with these bytes."""
    return f"capacity-broker-launcher-{hashlib.sha256(packed).hexdigest()[:16]}"


def labels(told: Mapping[str, str], *, placement: str, run_key: str) -> dict[str, str]:
    """Return the labels of a placement's own objects: those of its pods, and of which log it is.

    ``placement`` and ``run_key`` are the order's, whatever it told.
    """
    found = {RUN_KEY: label_value(run_key), **pod_labels(told, placement=placement)}
    if told.get("log"):
        found[LOG] = label_value(told["log"])
    return dict(sorted(found.items()))


def pod_labels(told: Mapping[str, str], *, placement: str) -> dict[str, str]:
    """Return the labels that a placement's pods carry: what people and selectors find them by.

    ``told`` are the order's own: ``team``, ``owner``, ``run``, ``capacity_type``; what is not among
    them is left out. No more than these, for each stands in every object that holds the template.
    """
    known = {"team": TEAM, "owner": OWNER, "capacity_type": CAPACITY_TYPE}
    found = {label: told[name] for name, label in known.items() if told.get(name)}
    if told.get("run"):
        # ``teams/vision/runs/one``: the last part is what people know it by; the team stands beside
        # it, and the whole of it in the annotation.
        found[RUN] = told["run"].rsplit("/", 1)[-1]
    found |= {PLACEMENT: placement, MANAGED_BY: MANAGER}
    return {name: label_value(value) for name, value in sorted(found.items())}


def selector(placement: str) -> dict[str, str]:
    """Return the labels by which a placement's pods are told from all others."""
    return {MANAGED_BY: MANAGER, PLACEMENT: label_value(placement)}


def label_value(text: str) -> str:
    """Return the text as a label's value: as it is, or a readable stem and a digest of it."""
    return text if is_label_value(text) else f"{_slug(text, 40)}-{_digest(text, 12)}"


def is_label_value(text: str) -> bool:
    """Whether the text can be a label's value as it is; empty can."""
    return _LABEL_VALUE.fullmatch(text) is not None


def told_annotation(told: Mapping[str, str]) -> str:
    """Return the annotation that keeps an order's words as they are."""
    return json.dumps(dict(told), ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def read_told(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return an order's words from an object that may be anybody's; empty: it has none."""
    text = annotations.get(TOLD, "")
    if len(text) > MAX_TOLD:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def is_dns_label(text: str) -> bool:
    """Whether the text can name a namespace, a container, or part of a host's name."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Whether the text can name a secret, a service account or a queue."""
    return len(text) <= _MAX_SUBDOMAIN and all(map(is_dns_label, text.split(".")))


def _slug(text: str, most: int) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text[: 4 * most].lower()).strip("-")
    return words[:most].strip("-") or "x"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
