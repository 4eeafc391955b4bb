"""What is known of capacity beside figures, and a cluster's words, for the wire."""

from broker.model.capacity_seen import ClusterWord, FlavorSaid, HeardSignal, KnownThing
from broker.service import enums, wire
from broker.service.wire import Axis
from broker.v1 import placement_pb2, region_pb2


def signal_message(signal: HeardSignal, axis: Axis) -> region_pb2.CapacitySignal:
    """Return a signal."""
    message = region_pb2.CapacitySignal(
        queue=signal.key.queue,
        flavor=signal.key.flavor,
        kind=signal.kind,
        unknown=signal.is_unknown,
        time=axis.time(signal.elapsed_s),
        count=signal.count,
        source=signal.source,
        message=signal.detail,
        gpus=signal.gpus,
    )
    if signal.wait_s is not None:
        message.wait.CopyFrom(wire.duration(signal.wait_s))
    return message


def fact_message(thing: KnownThing, axis: Axis) -> region_pb2.CapacityFact:
    """Return something that is known."""
    return region_pb2.CapacityFact(
        queue=thing.key.queue,
        flavor=thing.key.flavor,
        subject=thing.what,
        message=thing.words,
        source=thing.source,
        time=axis.time(thing.elapsed_s),
    )


def tell_said(message: region_pb2.FlavorStatus, said: FlavorSaid) -> None:
    """Put what a cluster says of a flavor into it."""
    if said.parked is not None:
        message.parked = said.parked
    profile = said.profile
    if profile is not None:
        message.profile.name = profile.name
        message.profile.widens.extend(profile.widens)
        message.profile.restricted = profile.is_restricted
        message.profile.parts.extend(
            region_pb2.ProfilePart(kind=kind, message=words) for kind, words in profile.parts
        )


def word_message(word: ClusterWord) -> placement_pb2.ClusterWord:
    """Return what a cluster says of a placement."""
    message = placement_pb2.ClusterWord(
        word=word.word,
        action=word.deed,
        advice=word.advice,
        object=word.look_at,
        message=word.raw,
        unknown=word.is_unknown,
        last_lines=word.last_lines,
    )
    if word.failure is not None:
        message.failure_class = enums.FAILURE_CLASS[word.failure]
    return message
