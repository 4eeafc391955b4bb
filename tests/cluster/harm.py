"""What operators and others do to a place's queue under a run's feet, and its undoing.

The rule: it is done to the queue's own objects, as whoever owns them would. Read ``Harm``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.cluster.conftest import SHARES, Place
from tests.cluster.faults.corner import held
from tests.cluster.leaving import JOBSET
from tests.cluster.rig import fleet
from tests.cluster.rig.waiting import wait_until

URGENT = "urgent"
SPOT = fleet.KINDS["SPOT"].flavor


class Harm:
    """Harm to one place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._api = place.region.api
        self._checks: list[str] = []

    def stop(self, policy: str) -> None:
        """Stop the queue: Hold lets nobody in, HoldAndDrain puts out who is in it, too."""
        self._apply(stop=policy)

    def ask(self, check: str, flavor: str = SPOT) -> None:
        """Have the queue ask a check for a flavor's machines, of which nobody will ever answer."""
        spec = {"controllerName": f"checks.example.org/{check}"}
        self._api.apply(fleet.named(fleet.KUEUE, "AdmissionCheck", check, spec))
        self._checks.append(check)
        told = {"status": {"conditions": [held("Active", "Active")]}}
        self._api.patch(fleet.KUEUE, "AdmissionCheck", check, told, part="status")
        self.name_check(check, flavor)

    def name_check(self, check: str, flavor: str = SPOT) -> None:
        """Have the queue name a check for a flavor's machines, there or not."""
        self._apply(checks={check: [flavor]})

    def remove_flavor(self) -> None:
        """Remove the kind of machine that spot is, in use as it may be."""
        self._api.delete(fleet.KUEUE, "ResourceFlavor", SPOT)
        self._api.patch(fleet.KUEUE, "ResourceFlavor", SPOT, {"metadata": {"finalizers": None}})

    def preempt(self) -> None:
        """Have somebody ask for all spot machines with a priority above all of the broker's."""
        name, place = URGENT, self._place
        kind = {"apiVersion": fleet.KUEUE, "kind": "WorkloadPriorityClass"}
        self._api.apply({**kind, "metadata": {"name": name}, "value": 10_000})
        [spot] = [share for share in SHARES if share.capacity_type == "SPOT"]
        place.submit(
            name,
            ["sleep", "600"],
            ranks=spot.nominal // 8,
            labels={"kueue.x-k8s.io/priority-class": name},
            pod={
                "nodeSelector": {fleet.PROVISIONING: "spot"},
                "tolerations": [{"operator": "Exists"}],
            },
        )
        wait_until(lambda: "Admitted" in place.conditions(name), 60, f"that {name} is let in")

    def shrink(self, gpus: int) -> None:
        """Leave the queue so many spot machines' GPUs for good."""
        self._apply(shares=(fleet.Share(capacity_type="SPOT", nominal=gpus),))

    def undo(self) -> None:
        """Bring the queue back to what it was, and have others leave; nothing more when it is."""
        self._api.apply(fleet.flavor("SPOT"))
        self._apply()
        for check in self._checks:
            self._api.delete(fleet.KUEUE, "AdmissionCheck", check)
        self._checks.clear()
        self._api.delete(JOBSET, "JobSet", URGENT, self._place.namespace)
        self._api.delete(fleet.KUEUE, "WorkloadPriorityClass", URGENT)

    def _apply(
        self,
        *,
        shares: Sequence[fleet.Share] = SHARES,
        stop: str = "None",
        checks: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        name = self._place.namespace
        self._api.apply(
            fleet.cluster_queue(name, shares, cohort="research", stop=stop, checks=checks)
        )
