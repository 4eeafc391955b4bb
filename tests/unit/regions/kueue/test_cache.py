"""The objects of one kind as last heard: what changed since when, compared with a plain model."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue import cache
from regions.kueue.cache import Cache
from regions.kueue.objects.kinds import Unreadable


@dataclass(frozen=True, slots=True)
class Thing:
    value: int


KEYS = st.sampled_from("abcd")
FOUND = st.builds(Thing, st.integers(0, 2)) | st.builds(
    Unreadable, key=st.just("x"), uid=st.just("u"), reason=st.sampled_from(["one", "two"])
)
PUT = st.tuples(st.just("put"), KEYS, FOUND)
DROP = st.tuples(st.just("drop"), KEYS, st.none())
REPLACE = st.tuples(st.just("replace"), st.none(), st.dictionaries(KEYS, FOUND))


@given(st.lists(PUT | DROP | REPLACE, max_size=12), st.integers(0, 12))
def test_what_changed_is_told_and_nothing_else(
    steps: list[tuple[str, str, object]], at: int
) -> None:
    kept: Cache[Thing] = Cache()
    states: list[dict[str, object]] = [{}]
    marks = [0]
    for what, key, found in steps:
        state = dict(states[-1])
        match what, found:
            case "put", Thing() | Unreadable():
                kept.put(key, found)
                state[key] = found
            case "drop", _:
                kept.drop(key)
                state.pop(key, None)
            case _, dict():
                kept.replace(found)
                state = dict(found)
        assert {**kept.objects, **kept.unreadable} == state
        assert all(isinstance(each, Thing) for each in kept.objects.values())
        states.append(state)
        marks.append(kept.generation)
    at = min(at, len(steps))
    told = kept.changed_since(marks[at])
    before, now = states[at], states[-1]
    differs = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    touched = {
        key
        for one, other in zip(states[at:], states[at + 1 :], strict=False)
        for key in one.keys() | other.keys()
        if one.get(key) != other.get(key)
    }
    assert told is not None
    assert differs <= told == touched


def test_who_was_away_too_long_is_told_to_look_at_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "MOST_GONE", 3)
    kept: Cache[Thing] = Cache()
    for at in range(3):
        kept.put(f"k{at}", Thing(at))
        kept.drop(f"k{at}")
    seen = kept.generation
    assert kept.changed_since(0) == frozenset({"k0", "k1", "k2"})
    kept.put("k3", Thing(3))
    kept.drop("k3")
    assert kept.changed_since(seen) is None
    assert kept.changed_since(kept.generation) == frozenset()
