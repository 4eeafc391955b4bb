"""What is told of a cluster that does not answer now: for how long, and what the broker does.

The rule: an outage that began a moment ago reads as one, not as a cluster that was seen a moment
ago. Read ``silence_message`` first.
"""

from broker.model.capacity import ClusterFacts
from broker.model.moment import Moment
from broker.model.policy import RegionPolicy
from broker.placement.words import duration


def silence_message(facts: ClusterFacts, policy: RegionPolicy, now: Moment) -> str:
    """Return the sentence, empty while the cluster and its store answer.

    A store that answers and is not believed, and a cluster that is configured no more, have
    sentences of their own.
    """
    is_heard = facts.is_reachable and (facts.is_store_reachable or facts.doubt is not None)
    if is_heard or not facts.is_configured:
        return ""
    if facts.silent_since_elapsed_s is None:
        return "it has not been heard yet; nothing is sent there until it is"
    silent_s = now.since(facts.silent_since_elapsed_s)
    if facts.is_reachable:
        return (
            f"its store does not answer now, and has not for {duration(silent_s)}:"
            " nothing starts there and no start there is closed until it does;"
            " what trains there trains on"
        )
    why = f" ({facts.silence})" if facts.silence else ""
    return (
        f"it does not answer now{why}, and has not for {duration(silent_s)}: it is asked again and"
        f" again, and nothing new is sent there; {_waiting(policy, silent_s)}; what trains there"
        f" is believed to train on, {_training(policy)}"
    )


def _waiting(policy: RegionPolicy, silent_s: float) -> str:
    patience_s = policy.patience.cluster_silent_s
    if silent_s >= patience_s:
        return "runs that wait there look elsewhere too"
    return f"runs that wait there look elsewhere too after {duration(patience_s)} of it"


def _training(policy: RegionPolicy) -> str:
    after_s = policy.replace_unreachable_after_s
    if after_s is None:
        return "and is replaced only when a person says broker replace"
    return f"and is replaced after {duration(after_s)} of it"
