"""What each process of a gang is told by its environment, and the command in front of it. Pure.

The rule: what the start protocol says cannot be overridden by a run, nor can what a profile sets;
and what a user wrote reaches the command as it was written, though Kubernetes fills in ``$(NAME)``
in between. Read ``environment`` first.
"""

import math
from dataclasses import dataclass
from typing import Any

from regions.cluster import Queue
from regions.kueue import names
from regions.kueue.profile_rules import LAUNCHER_DIR, WORK_DIR, is_protocol
from regions.kueue.site import Site
from regions.launcher import envelope

LAUNCHER_FILE = "launcher.pyz"
DEFAULTS = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "HOME": WORK_DIR}
"""What a run may set otherwise. As torchrun has it, many processes of one machine have one thread
each; and a user that the image does not know has no other home."""

PREEMPTION_WINDOW_S = {"SPOT": 15.0, "FLEX": 15.0}
"""From the notice to the end, where the cloud takes machines back: of the node's 30 seconds the
first 15 are for pods, unless its kubelet is set otherwise, and a profile says so."""
END_MARGIN_S = 2.0
"""Kept of the window for the launcher's own last word."""
_LEAST_WINDOW_S = 5.0
_MOST_GRACE_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What the end of a process may take, in seconds: from the notice to the end of the container,
    of that for the command and its launcher, and of that from SIGTERM to SIGKILL."""

    container_s: int
    notice_s: float
    grace_s: float


def times(queue: Queue, site: Site) -> Times:
    """Return how long the end may take on this capacity."""
    # A longer one than the machine is left with would be cut short, and the launcher would believe
    # in seconds that it does not have. Where no machine is taken away it is the run's own wish.
    window_s = site.profile.preemption_window_s or _window_s(queue.capacity_type, site)
    whole_s = window_s if window_s is not None else 2.5 * queue.stop_grace_s + END_MARGIN_S
    whole_s = min(_MOST_GRACE_S, max(_LEAST_WINDOW_S, whole_s))
    notice_s = whole_s - END_MARGIN_S
    return Times(
        container_s=math.floor(whole_s) if window_s is not None else math.ceil(whole_s),
        notice_s=notice_s,
        # Of a short notice most is for saving: the launcher's own grace comes out of it.
        grace_s=min(queue.stop_grace_s, 0.4 * notice_s),
    )


def _window_s(capacity_type: str, site: Site) -> float | None:
    """Return how long a machine that is taken back leaves; None: such machines are not."""
    usual_s = PREEMPTION_WINDOW_S.get(capacity_type)
    return site.window_s if usual_s is not None and site.window_s is not None else usual_s


def command(queue: Queue, site: Site) -> list[str]:
    """Return the command with the launcher in front of it.

    It needs no packages and starts sooner without looking for them; the command's own interpreter
    is not touched by its options.
    """
    launcher = f"{LAUNCHER_DIR}/{LAUNCHER_FILE}"
    own = (site.profile.interpreter, "-I", "-S", launcher, "--", *queue.command)
    return [verbatim(word) for word in own]


def environment(queue: Queue, site: Site) -> list[dict[str, Any]]:
    """Return the environment of the training container, in order of its names.

    A run's own value under a name of the protocol or of the profile is left out. What the broker
    itself says is one variable, which the launcher opens: each variable of a container stands in
    the JobSet, its job, every pod and Kueue's workload, once more by its name in what a cluster
    keeps of who wrote which field, and all of that is encoded anew with each change of a status.
    """
    said = {**queue.env, **site.profile.env}
    own = {name: value for name, value in said.items() if not is_protocol(name)}
    secrets = {name: secret for secret, name, _ in queue.secrets if name}
    brokers = {**DEFAULTS, **said, **_protocol(queue, site)}
    apart = own.keys() | secrets.keys() | _WHO.keys()
    carried = {name: value for name, value in brokers.items() if name not in apart}
    values = {**own, envelope.NAME: envelope.closed(carried)}
    found: dict[str, dict[str, Any]] = {
        name: {"name": name, "value": verbatim(value)} for name, value in values.items()
    }
    for name, secret in secrets.items():
        reference = {"name": secret, "key": name, "optional": False}
        found[name] = {"name": name, "valueFrom": {"secretKeyRef": reference}}
    # Set last, because by these a process knows who it is.
    for name, path in _WHO.items():
        found[name] = {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return [found[name] for name in sorted(found)]


_WHO = {
    "RANK": f"metadata.annotations['{names.RANK_ANNOTATION}']",
    "BROKER_MEMBER": "metadata.uid",
    "BROKER_NODE": "spec.nodeName",
    "BROKER_GANG": f"metadata.labels['{names.GANG_UID}']",
}


def _protocol(queue: Queue, site: Site) -> dict[str, str]:
    own, pace = times(queue, site), site.pace
    return {
        "WORLD_SIZE": str(queue.gang.ranks),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": names.master_address(names.jobset_name(queue.placement)),
        "MASTER_PORT": str(names.master_port(queue.placement)),
        "BROKER_RUN": queue.run_name,
        "BROKER_RUN_KEY": queue.run_key,
        "BROKER_PLACEMENT": queue.placement,
        **_store(site),
        "BROKER_REGION": site.region,
        "BROKER_CLUSTER": site.cluster,
        "BROKER_WORK_DIR": WORK_DIR,
        "BROKER_GATE_TIMEOUT_S": _seconds(queue.gate_timeout_s),
        "BROKER_GATE_POLL_S": _seconds(pace.gate_poll_s),
        "BROKER_GATE_FRESH_S": _seconds(pace.gate_fresh_s),
        "BROKER_CONTROL_POLL_S": _seconds(pace.control_poll_s),
        "BROKER_REPORT_S": _seconds(pace.report_s),
        "BROKER_END_RETRY_S": _seconds(pace.end_retry_s),
        "BROKER_NOTICE_S": _seconds(own.notice_s),
        "BROKER_GRACE_S": _seconds(own.grace_s),
    }


def _store(site: Site) -> dict[str, str]:
    """Return where the region's store is, and for a bucket who opens it."""
    bucket = site.bucket
    if bucket is None:
        return {"BROKER_STORE": site.profile.store}
    said = {
        "BROKER_STORE_ENDPOINT": bucket.endpoint,
        "BROKER_STORE_TOKENS": site.profile.store_tokens,
    }
    return {"BROKER_STORE": bucket.location, **{name: said[name] for name in said if said[name]}}


def verbatim(text: str) -> str:
    """Return the text so written that Kubernetes passes it on as it is: ``$$`` is one ``$``."""
    return text.replace("$", "$$")


def _seconds(value: float) -> str:
    return f"{max(0.01, value):g}"
