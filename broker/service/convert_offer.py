"""Offers and refusals, for the wire."""

from broker.model.capacity import FlavorKey, Forecast, Offer, Refusal
from broker.model.intent import CapacityType
from broker.model.preparing import Preparation
from broker.model.run import Run
from broker.placement.compare import Compared
from broker.placement.content import prepared_words
from broker.placement.explain import Explanation
from broker.service import enums, wire
from broker.v1 import errors_pb2, offer_pb2


def estimate_message(run: Run, explanation: Explanation) -> offer_pb2.Estimate:
    """Return all places that were looked at, best first. Chosen: where the run waits, or would."""
    chosen = {(leg.site.key, leg.site.hardware_index) for leg in run.waiting_placements}
    if explanation.chosen is not None:
        chosen.add(_where(explanation.chosen))
    return offer_pb2.Estimate(
        offers=[_offer(one, is_chosen=_where(one.offer) in chosen) for one in explanation.compared],
        refusals=[_refusal(refusal) for refusal in explanation.refusals],
        summary=explanation.wait.message,
        never_fits=explanation.never_fits,
    )


def _where(offer: Offer) -> tuple[FlavorKey, int]:
    return offer.key, offer.hardware_index


def offered_place(offer: Offer) -> offer_pb2.Place:
    """Return where an offer is."""
    return _place(offer.key, offer.region, offer.capacity_type)


def _place(key: FlavorKey, region: str, capacity_type: CapacityType) -> offer_pb2.Place:
    return offer_pb2.Place(
        region=region,
        cluster=key.cluster,
        queue=key.queue,
        flavor=key.flavor,
        capacity_type=enums.CAPACITY_TYPE[capacity_type],
    )


def _offer(one: Compared, *, is_chosen: bool) -> offer_pb2.Offer:
    offer = one.offer
    return offer_pb2.Offer(
        place=offered_place(offer),
        hardware_index=offer.hardware_index,
        nodes=offer.nodes,
        gpus=offer.gpus,
        price_per_gpu_hour=wire.money(offer.price_per_gpu_hour),
        price_per_hour=wire.money(offer.price_per_hour),
        forecast=_forecast(offer.forecast),
        content_wait=wire.duration(offer.preparation.wait_s),
        preparation=_preparation(offer.preparation),
        score=offer.score,
        chosen=is_chosen,
        comparison=enums.COMPARISON[one.comparison],
        held_back_by=errors_pb2.REASON_UNSPECIFIED
        if one.reason is None
        else enums.REASON[one.reason],
        compared=one.message,
    )


def _preparation(found: Preparation) -> offer_pb2.Preparation:
    return offer_pb2.Preparation(
        resume_from=enums.RESUME_FROM[found.resume],
        resume_step=found.resume_step,
        checkpoint_bytes=found.checkpoint_bytes,
        image_bytes=found.image_bytes,
        bundle_missing=found.has_bundle_to_come,
        wait=wire.duration(found.wait_s),
        egress_cost=wire.money(found.egress_usd),
        redone=wire.duration(found.redone_s),
        redone_cost=wire.money(found.redone_usd),
        price_doubt=found.doubt,
        message=prepared_words(found),
    )


def _forecast(forecast: Forecast) -> offer_pb2.Forecast:
    message = offer_pb2.Forecast(
        chance=forecast.chance,
        certainty=enums.CERTAINTY[forecast.certainty],
        basis=forecast.basis,
    )
    if forecast.p50_s is not None:
        message.p50.CopyFrom(wire.duration(forecast.p50_s))
    if forecast.p90_s is not None:
        message.p90.CopyFrom(wire.duration(forecast.p90_s))
    return message


def _refusal(refusal: Refusal) -> offer_pb2.Refusal:
    return offer_pb2.Refusal(
        place=_place(refusal.key, refusal.region, refusal.capacity_type),
        hardware_index=refusal.hardware_index,
        reason=enums.REASON[refusal.reason],
        message=refusal.message,
    )
