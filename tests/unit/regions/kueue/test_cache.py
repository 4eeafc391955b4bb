"""The objects of one kind as last heard, compared with a plain model."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(PUT | DROP | REPLACE, max_size=12))
def test_a_generation_grows_with_each_object_that_changes_and_with_nothing_else(
    steps: list[tuple[str, str, object]],
) -> None:
    kept: Cache[Thing] = Cache()
    state: dict[str, object] = {}
    for what, key, found in steps:
        before, generation = dict(state), kept.generation
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
        touched = [key for key in before.keys() | state if before.get(key) != state.get(key)]
        assert kept.generation == generation + len(touched)
