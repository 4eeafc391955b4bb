"""How fast copies go between two regions: measured by who copies, kept for forecasts.

The rule: each pair of regions has a rate of its own, smoothed over its copies. The view has it at
once; the log has it when forecasts would be others by it, so that a broker that begins anew
foresees as it did. Read ``Pacer.measured``.
"""

from broker.history.commands import RecordCopyRate
from broker.loops.desk import Clock, Desk
from broker.model.copying import CopyKind, smoothed
from broker.placement.view import View

MEASURED_BYTES = 16 << 20  # what is smaller is all start-up


class Pacer:
    """Takes what one agent has measured to the view and to the log."""

    def __init__(self, desk: Desk, view: View, clock: Clock) -> None:
        self._desk = desk
        self._view = view
        self._clock = clock

    async def measured(
        self, kind: CopyKind, source: str, destination: str, *, sent_bytes: int, began_s: float
    ) -> None:
        """Take in a copy that is whole now, and began at ``began_s`` (broker seconds)."""
        took_s = self._clock.now().since(began_s)
        if sent_bytes < MEASURED_BYTES or took_s <= 0.0:
            return
        stream = f"regions/{destination}"
        former = self._view.rates.between(kind, source, destination)
        if former is None:
            # The broker has just begun, and nobody told the view yet what a former life measured.
            former = self._desk.log.region(destination).copy_rate(kind, source)
        rate = smoothed(former, sent_bytes / took_s)
        self._view.rates.tell(kind, source, destination, rate)
        await self._desk.tell(stream, RecordCopyRate(kind=kind, source=source, bytes_per_s=rate))
