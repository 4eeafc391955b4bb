"""What every store of the start protocol must do: a directory, a bucket."""

import threading
from collections.abc import Callable

import pytest

from regions.launcher.store import InvalidKey, Store, StoreUnreachable, read_bounded
from tests.contract.launcher.shelves import Shelf


def calls(store: Store) -> tuple[Callable[[str], object], ...]:
    """Return each of the five calls, as a function of a key."""
    return (
        store.get,
        store.delete,
        lambda key: store.put(key, b""),
        lambda key: store.create_if_absent(key, b""),
        lambda key: store.list(key + "/"),
    )


def test_what_is_put_is_read_and_listed_one_level_at_a_time(shelf: Shelf) -> None:
    store = shelf.store
    store.put("runs/r/e000001/owner", b"1")
    store.put("runs/r/placements/p/grant", b"2")
    store.put("runs/r/placements/p/grant", b"3")
    assert read_bounded(store, "runs/r/placements/p/grant", 10) == b"3"
    assert read_bounded(store, "runs/r/placements/p/grant", 0) == b"3"
    assert read_bounded(store, "runs/r/placements/q/grant", 10) is None
    assert store.list("") == ("runs/",)
    assert store.list("runs/r/") == ("e000001/", "placements/")
    assert store.list("runs/r/placements/p/") == ("grant",)
    assert store.list("runs/none/") == ()
    store.delete("runs/r/placements/p/grant")
    store.delete("runs/r/placements/p/grant")
    assert store.list("runs/r/placements/p/") == ()


def test_what_is_under_a_prefix_is_measured_however_deep(shelf: Shelf) -> None:
    shelf.store.put("runs/r/step-1/model", b"123")
    shelf.store.put("runs/r/step-1/optimizer/state", b"")
    shelf.store.put("runs/r/step-10/model", b"1")
    assert shelf.store.sizes("runs/r/step-1/") == {"model": 3, "optimizer/state": 0}
    assert shelf.store.sizes("runs/r/step-2/") == {}
    with pytest.raises(InvalidKey):
        shelf.store.sizes("runs/../step-1/")
    shelf.cut()
    for prefix in ("runs/r/step-1/", "runs/r/step-2/"):
        with pytest.raises(StoreUnreachable):
            shelf.store.sizes(prefix)
    shelf.mend()


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, 3_000_000])
def test_a_value_is_read_back_as_it_was_written(shelf: Shelf, size_bytes: int) -> None:
    data = (b"\r\n--x\r\n\r\n" + bytes(range(256)) * 12_000)[:size_bytes]
    assert shelf.store.create_if_absent("a/b", data)
    assert read_bounded(shelf.store, "a/b", 4_000_000) == data
    stream = shelf.store.get("a/b")
    assert stream is not None
    with stream:
        assert b"".join(iter(lambda: stream.read(70_000), b"")) == data


def test_create_if_absent_has_one_winner_and_its_record_stands(shelf: Shelf) -> None:
    won: list[int] = []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        barrier.wait()
        if shelf.store.create_if_absent("owner", str(number).encode() * 1000):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert read_bounded(shelf.store, "owner", 10_000) == str(won[0]).encode() * 1000


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/etc/passwd", "..", "a/../b", "a//b", "a/", "a/.", "a\0b", "a b"),
        *("x" * 300, ".store", ".tmp/x", "a/ü"),
    ],
)
def test_a_key_that_climbs_or_is_the_stores_own_is_refused(shelf: Shelf, key: str) -> None:
    for call in calls(shelf.store):
        with pytest.raises(InvalidKey):
            call(key)


def test_a_prefix_ends_in_a_slash(shelf: Shelf) -> None:
    with pytest.raises(InvalidKey):
        shelf.store.list("runs")


def test_a_store_that_is_cut_off_is_unreachable_and_never_empty(shelf: Shelf) -> None:
    shelf.store.put("a/b", b"1")
    shelf.cut()
    for call in calls(shelf.store):
        for key in ("a/b", "a/c"):
            with pytest.raises(StoreUnreachable):
                call(key)
    shelf.mend()
    assert (shelf.store.list("a/"), read_bounded(shelf.store, "a/b", 10)) == (("b",), b"1")
