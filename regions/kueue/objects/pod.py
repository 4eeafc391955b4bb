"""Pods: our gangs' members, and whatever else stands on the nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.pod_spec import read_requests
from regions.kueue.objects.reading import Fields
from regions.kueue.objects.taints import Toleration, read_tolerations


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """What one container does. ``state``: waiting, running, terminated, or empty for untold.

    ``exit_code`` and ``signal`` are of its end, None before it, and None where the other tells.
    """

    name: str
    is_init: bool
    is_ready: bool
    state: str
    reason: str
    message: str
    exit_code: int | None
    signal: int | None
    restarts: int
    started_s: float | None
    finished_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. ``node`` is empty until it is bound; ``phase`` is Kubernetes' word.

    ``selector`` and ``tolerations`` say which nodes it can be bound to, and are kept until it is.
    """

    meta: Meta
    node: str
    phase: str
    reason: str
    message: str
    requests: Mapping[str, int]
    gates: tuple[str, ...]
    selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    containers: tuple[ContainerState, ...]
    conditions: Conditions
    grace_s: int | None

    @property
    def is_over(self) -> bool:
        """Whether all its containers ended for good."""
        return self.phase in ("Succeeded", "Failed")


def read_pod(fields: Fields, _: str) -> Pod:
    """Read a pod."""
    spec, status = fields.inner("spec"), fields.inner("status")
    node = spec.text("nodeName")
    return Pod(
        meta=read_meta(fields),
        node=node,
        phase=status.text("phase"),
        reason=status.text("reason"),
        message=status.message("message"),
        requests=read_requests(spec),
        gates=tuple(each.text("name") for each in spec.each("schedulingGates")),
        selector={} if node else spec.pairs("nodeSelector"),
        tolerations=() if node else read_tolerations(spec, "tolerations"),
        containers=(
            *(_container(each, is_init=True) for each in status.each("initContainerStatuses")),
            *(_container(each, is_init=False) for each in status.each("containerStatuses")),
        ),
        conditions=read_conditions(status),
        grace_s=fields.inner("metadata").integer("deletionGracePeriodSeconds"),
    )


def _container(fields: Fields, *, is_init: bool) -> ContainerState:
    states = fields.inner("state")
    state = next((name for name in ("terminated", "running", "waiting") if states.has(name)), "")
    detail = states.inner(state)
    is_over = state == "terminated"
    signal = detail.integer("signal")
    return ContainerState(
        name=fields.text("name"),
        is_init=is_init,
        is_ready=fields.flag("ready"),
        state=state,
        reason=detail.text("reason"),
        # What a container leaves at its end are the last lines of its log.
        message=detail.ending("message") if is_over else detail.message("message"),
        exit_code=detail.integer("exitCode") if is_over else None,
        signal=(signal or None) if is_over else None,
        restarts=fields.count("restartCount"),
        started_s=detail.time_s("startedAt"),
        finished_s=detail.time_s("finishedAt"),
    )
