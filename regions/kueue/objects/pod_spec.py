"""What a pod asks for, of its spec: the only part of a pod's template that is kept."""

from collections.abc import Mapping

from regions.kueue.objects.reading import Fields


def read_requests(spec: Fields) -> Mapping[str, int]:
    """Return what a pod takes of a node, by resource.

    As Kubernetes counts: the containers together, or the largest moment of the start if that is
    more; init containers that stay (sidecars) count from their own start on; plus the overhead.
    """
    running: dict[str, int] = {}
    for container in spec.each("containers"):
        _add(running, _asked(container))
    staying: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.each("initContainers"):
        asked = _asked(container)
        if container.text("restartPolicy") == "Always":
            _add(staying, asked)
            _most(starting, staying)
        else:
            moment = dict(staying)
            _add(moment, asked)
            _most(starting, moment)
    _add(running, staying)
    _most(running, starting)
    _add(running, spec.amounts("overhead"))
    return running


def _asked(container: Fields) -> dict[str, int]:
    """What one container requests; where it names a limit only, that is its request."""
    resources = container.inner("resources")
    return resources.amounts("limits") | resources.amounts("requests")


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _most(total: dict[str, int], other: Mapping[str, int]) -> None:
    for resource, value in other.items():
        total[resource] = max(total.get(resource, 0), value)
