"""Offers and refusals, for the wire."""

from broker.model.capacity import FlavorKey, Forecast, Offer, Refusal
from broker.model.intent import CapacityType
from broker.model.run import Run
from broker.placement.explain import Explanation
from broker.service import enums, wire
from broker.v1 import offer_pb2


def estimate_message(run: Run, explanation: Explanation) -> offer_pb2.Estimate:
    """Return all places that were looked at, best first. Chosen: where the run waits, or would."""
    chosen = {leg.site.key for leg in run.waiting_placements}
    if explanation.chosen is not None:
        chosen.add(explanation.chosen.key)
    return offer_pb2.Estimate(
        offers=[_offer(offer, is_chosen=offer.key in chosen) for offer in explanation.offers],
        refusals=[_refusal(refusal) for refusal in explanation.refusals],
        summary=explanation.wait.message,
    )


def _place(key: FlavorKey, region: str, capacity_type: CapacityType) -> offer_pb2.Place:
    return offer_pb2.Place(
        region=region,
        cluster=key.cluster,
        queue=key.queue,
        flavor=key.flavor,
        capacity_type=enums.CAPACITY_TYPE[capacity_type],
    )


def _offer(offer: Offer, *, is_chosen: bool) -> offer_pb2.Offer:
    return offer_pb2.Offer(
        place=_place(offer.key, offer.region, offer.capacity_type),
        hardware_index=offer.hardware_index,
        nodes=offer.nodes,
        gpus=offer.gpus,
        price_per_gpu_hour=wire.money(offer.price_per_gpu_hour),
        price_per_hour=wire.money(offer.price_per_hour),
        forecast=_forecast(offer.forecast),
        content_wait=wire.duration(offer.content_s),
        score=offer.score,
        chosen=is_chosen,
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
