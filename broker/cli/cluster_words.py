"""A cluster's own word for where a placement stands: named in a status, explained elsewhere.

The rule: a status stays short enough to be read at a glance; whose fault it is, what is done, what
helps and which object shows it are told by ``broker explain``. Read ``named`` first.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.cli import words
from broker.v1 import placement_pb2

if TYPE_CHECKING:
    from broker.v1 import run_pb2


def named(placement: placement_pb2.Placement, run: str) -> Iterator[str]:
    """Yield the word, and where more of it is said; nothing where it waits as one does."""
    word = placement.cluster_word
    if _is_news(word):
        seen = f", seen at {word.object}" if word.unknown and word.object else ""
        yield f"{word.word}{seen} (more: broker explain {run})"


def telling(run: "run_pb2.Run") -> list[placement_pb2.Placement]:
    """Return the placements whose words tell of the run as it stands now.

    Those are the live ones, and of the others the last, while no gang has come further since.
    """
    live = [p for p in run.placements if p.state != placement_pb2.PLACEMENT_STATE_ENDED]
    over = [p for p in run.placements if p.state == placement_pb2.PLACEMENT_STATE_ENDED]
    is_beyond = any(p.state == placement_pb2.PLACEMENT_STATE_RUNNING for p in live)
    last = max(over, key=lambda each: words.wall_s(each.state_time), default=None)
    return live if last is None or is_beyond else [*live, last]


def explained(run: "run_pb2.Run") -> Iterator[str]:
    """Yield all that is behind the words of a run's placements, line by line."""
    for placement in telling(run):
        word = placement.cluster_word
        if not _is_news(word):
            continue
        fault = words.kind(word, "failure_class") if word.failure_class else "nobody's"
        yield f"{words.where(placement.place)}: {word.word} (class: {fault})"
        said = {
            "what is done": word.action,
            "what helps": word.advice,
            "the cluster says": word.message,
            "to look at": _object(placement),
        }
        yield from (f"  {label:<16}  {text}" for label, text in said.items() if text)
        for at, line in enumerate(word.last_lines.splitlines()):
            yield f"  {'' if at else 'it printed last':<16}  {line}"


def _is_news(word: placement_pb2.ClusterWord) -> bool:
    return bool(word.failure_class) or word.unknown


def _object(placement: placement_pb2.Placement) -> str:
    place, shown = placement.place, placement.cluster_word.object
    return f"{shown} in {place.cluster}" if shown else ""
