"""Taints, and what tolerates them."""

from collections.abc import Iterable
from dataclasses import dataclass

from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What keeps pods off a node. ``effect``: NoSchedule, PreferNoSchedule, NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What bears a taint. An empty key with Exists bears all; an empty effect is any."""

    key: str
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def bears(self, taint: Taint) -> bool:
        """Whether a pod with this may stand on a node with that."""
        if self.effect not in ("", taint.effect):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.operator == "Equal" and (self.key, self.value) == (taint.key, taint.value)


def in_the_way(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that keep a pod off, those that only discourage aside."""
    known = tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not any(each.bears(taint) for each in known)
    )


def read_taints(fields: Fields, name: str) -> tuple[Taint, ...]:
    """Read a list of taints."""
    return tuple(
        Taint(key=each.text("key"), value=each.text("value"), effect=each.text("effect"))
        for each in fields.each(name)
    )


def read_tolerations(fields: Fields, name: str) -> tuple[Toleration, ...]:
    """Read a list of tolerations."""
    return tuple(
        Toleration(
            key=each.text("key"),
            operator=each.text("operator", "Equal"),
            value=each.text("value"),
            effect=each.text("effect"),
        )
        for each in fields.each(name)
    )
