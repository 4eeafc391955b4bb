"""What is paid for: machines that came, while they were there, and what they did meanwhile.

The rule: time is whole milliseconds and money is Decimal, so that any order of adding gives the
same sum. Machines that never came are in none of these. ``model/metering.py`` fills them.
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFrom:
    """From ``at_s`` (broker seconds) on, a placement had ``nodes`` machines of its cluster."""

    at_s: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidTime:
    """Milliseconds that were paid for, of machines or of accelerators, by what their gang did.

    ``provisioning_ms``: it waited for the rest of its machines and processes. ``at_gate_ms``: it
    stood whole at its gate. ``running_ms``: it had passed its gate.
    """

    provisioning_ms: int = 0
    at_gate_ms: int = 0
    running_ms: int = 0

    @property
    def idle_ms(self) -> int:
        """What was paid with nothing on it: whoever has no grant yet stands at the gate (law 8)."""
        return self.provisioning_ms + self.at_gate_ms

    @property
    def total_ms(self) -> int:
        """All that was paid."""
        return self.idle_ms + self.running_ms

    def __add__(self, other: "PaidTime") -> "PaidTime":
        return PaidTime(
            provisioning_ms=self.provisioning_ms + other.provisioning_ms,
            at_gate_ms=self.at_gate_ms + other.at_gate_ms,
            running_ms=self.running_ms + other.running_ms,
        )

    def times(self, factor: int) -> "PaidTime":
        """Return as many times as much: accelerator time of machine time."""
        return PaidTime(
            provisioning_ms=self.provisioning_ms * factor,
            at_gate_ms=self.at_gate_ms * factor,
            running_ms=self.running_ms * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCost:
    """US dollars by what a gang did when they were paid; see ``PaidTime``."""

    provisioning: Decimal = Decimal(0)
    at_gate: Decimal = Decimal(0)
    running: Decimal = Decimal(0)

    @property
    def idle(self) -> Decimal:
        """What was paid for machines with nothing on them."""
        return self.provisioning + self.at_gate

    @property
    def total(self) -> Decimal:
        """The sum of the phases, and the one figure of what something cost."""
        return self.idle + self.running

    def __add__(self, other: "PhaseCost") -> "PhaseCost":
        return PhaseCost(
            provisioning=self.provisioning + other.provisioning,
            at_gate=self.at_gate + other.at_gate,
            running=self.running + other.running,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Accelerator time that was paid for, and its price."""

    time: PaidTime = PaidTime()
    cost: PhaseCost = PhaseCost()

    def __add__(self, other: "Bill") -> "Bill":
        return Bill(time=self.time + other.time, cost=self.cost + other.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A placement's machines: ``nodes`` of them since ``since_ms``, ``paid`` node time before.

    ``since_ms`` is on the broker's elapsed axis, in whole milliseconds.
    """

    since_ms: int = 0
    nodes: int = 0
    paid: PaidTime = PaidTime()


NOTHING_PAID = Bill()
NO_MACHINES = Meter()
