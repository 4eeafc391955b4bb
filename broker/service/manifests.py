"""What is sent to clusters, for the wire.

The rule: nothing is built here; the port of each cluster says what it sends. Read ``manifests``
first.
"""

from broker.model import names
from broker.model.capacity import Offer
from broker.model.manifest import Manifest
from broker.model.names import placement_name
from broker.model.run import Placement, Run
from broker.placement.explain import Explanation
from broker.service.convert_offer import offered_place
from broker.service.convert_run import place_message
from broker.service.errors import invalid, not_found
from broker.service.ports import Ports
from broker.v1 import offer_pb2, run_service_pb2


def manifests(
    ports: Ports, run: Run, request: run_service_pb2.GetManifestRequest
) -> run_service_pb2.GetManifestResponse:
    """Return what is sent for a placement of a run, or for each that is not over."""
    return run_service_pb2.GetManifestResponse(
        manifests=[
            _message(
                ports.manifests.manifest(run, one),
                place_message(one.site),
                placement=placement_name(run.name, one.id),
            )
            for one in _asked(run, request.placement)
        ]
    )


def foreseen(ports: Ports, run: Run, explanation: Explanation) -> run_service_pb2.Manifest | None:
    """Return what would be sent to where a run would go, None when it would go nowhere."""
    best: Offer | None = explanation.chosen or next(iter(explanation.offers), None)
    if best is None:
        return None
    return _message(ports.manifests.offered(run, best), offered_place(best), placement="")


def _asked(run: Run, placement: str) -> tuple[Placement, ...]:
    if placement:
        if not names.is_id(placement):
            raise invalid("placement", "is not the id of a placement")
        found = run.placements.get(placement)
        if found is None:
            raise not_found(placement_name(run.name, placement))
        return (found,)
    asked = run.live_placements or tuple(run.placements.values())[-1:]
    if not asked:
        raise not_found(f"a placement of {run.name}")
    return asked


def _message(
    manifest: Manifest, place: offer_pb2.Place, *, placement: str
) -> run_service_pb2.Manifest:
    return run_service_pb2.Manifest(
        placement=placement,
        place=place,
        objects=[
            run_service_pb2.SentObject(kind=one.kind, name=one.name, json=one.json)
            for one in manifest.objects
        ],
        notes=manifest.notes,
        refusal=manifest.refusal,
    )
