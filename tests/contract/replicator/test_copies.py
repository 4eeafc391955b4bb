"""Copies that two stores of Google's make by themselves, on the fake and on real buckets."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from replicator.bundle import copy_bundle, store_bundle
from replicator.checkpoint.copy import copy
from replicator.checkpoint.describe import attest, describe
from replicator.checkpoint.formats import Format
from replicator.checkpoint.manifest import Replica
from replicator.checkpoint.verify import Depth, Health, verify
from replicator.errors import Cancelled, Changed, NotFound
from replicator.stores import ContentStore, CopiesByItself, DirectoryStore, Entry
from tests.contract.replicator.pairs import Pair
from tests.fakes.checkpoints import PATH, save, unheard

LARGE = bytes(range(256)) * 10_000  # two calls and a half, between locations


def read(store: ContentStore, entry: Entry) -> bytes:
    with closing(store.read(entry.name, entry.generation)) as chunks:
        return b"".join(chunks)


@pytest.mark.parametrize("data", [b"", b"1", LARGE])
def test_a_copy_has_the_bytes_and_is_made_once(pair: Pair, data: bytes) -> None:
    source, destination = pair.source, pair.destination
    assert isinstance(destination, CopiesByItself)
    assert destination.can_copy_from(source)
    entry = source.put("a/one", [data])
    assert destination.find_copy(source, "a/one", entry.generation) is None
    heard: list[int] = []
    copied = destination.copy_from(source, "a/one", entry.generation, heard.append)
    assert (read(destination, copied), sum(heard)) == (data, len(data))
    assert destination.stat("a/one") == copied
    assert destination.find_copy(source, "a/one", entry.generation) == copied
    assert destination.copy_from(source, "a/one", entry.generation, unheard) == copied


def test_a_copy_takes_the_place_of_other_content_and_not_of_its_own(pair: Pair) -> None:
    entry = pair.source.put("a/one", [b"right"])
    wrong = pair.destination.put("a/one", [b"wrong"])
    assert pair.destination.find_copy(pair.source, "a/one", entry.generation) is None
    copied = pair.destination.copy_from(pair.source, "a/one", entry.generation, unheard)
    assert (read(pair.destination, copied), copied != wrong) == (b"right", True)


def test_what_somebody_else_copied_counts(pair: Pair) -> None:
    entry = pair.source.put("a/one", [LARGE])
    theirs = pair.destination.put("a/one", [LARGE])
    assert pair.destination.find_copy(pair.source, "a/one", entry.generation) == theirs


def test_a_source_that_was_replaced_is_changed_and_one_that_is_gone_is_not_found(
    pair: Pair,
) -> None:
    first = pair.source.put("a/one", [b"first"])
    pair.source.put("a/one", [b"second"])
    pair.destination.put("a/one", [b"other"])
    attempts: tuple[Callable[[], object], ...] = (
        lambda: pair.destination.find_copy(pair.source, "a/one", first.generation),
        lambda: pair.destination.copy_from(pair.source, "a/one", first.generation, unheard),
        lambda: pair.destination.copy_from(pair.source, "a/one", "not-a-number", unheard),
    )
    for attempt in attempts:
        with pytest.raises(Changed):
            attempt()
    pair.source.delete("a/one")
    with pytest.raises(NotFound):
        pair.destination.copy_from(pair.source, "a/one", first.generation, unheard)
    there = pair.destination.stat("a/one")
    assert there is not None
    assert read(pair.destination, there) == b"other"


def test_a_copy_that_is_stopped_shows_nothing_and_the_next_one_is_whole(pair: Pair) -> None:
    entry = pair.source.put("a/one", [LARGE])

    def stop(size_bytes: int) -> None:
        raise Cancelled("a/one", "as planned")

    with pytest.raises(Cancelled):
        pair.destination.copy_from(pair.source, "a/one", entry.generation, stop)
    if pair.fake is not None:
        assert pair.destination.stat("a/one") is None
    copied = pair.destination.copy_from(pair.source, "a/one", entry.generation, unheard)
    assert read(pair.destination, copied) == LARGE


def test_a_directory_copies_from_no_bucket_by_itself(pair: Pair, tmp_path: Path) -> None:
    assert not isinstance(DirectoryStore.create(tmp_path), CopiesByItself)
    assert not pair.destination.can_copy_from(DirectoryStore.create(tmp_path))


@pytest.fixture(params=["bucket to bucket", "directory to bucket", "bucket to directory"])
def way(
    request: pytest.FixtureRequest, pair: Pair, tmp_path: Path
) -> tuple[ContentStore, ContentStore]:
    directory = DirectoryStore.create(tmp_path / "store")
    ways: dict[str, tuple[ContentStore, ContentStore]] = {
        "bucket to bucket": (pair.source, pair.destination),
        "directory to bucket": (directory, pair.destination),
        "bucket to directory": (pair.source, directory),
    }
    return ways[str(request.param)]


def saved(store: ContentStore) -> Replica:
    save(store, PATH, {"model.bin": LARGE, "optimizer/1.bin": b"12", "empty": b""})
    return attest(store, PATH, Format.FILES, unheard)


def test_a_checkpoint_is_whole_where_it_was_copied_to(
    way: tuple[ContentStore, ContentStore],
) -> None:
    source, destination = way
    origin = saved(source)
    replica = copy(origin, source, destination, unheard)
    found = verify(destination, PATH, Depth.DEEP, unheard)
    assert (found.health, found.replica) == (Health.SOUND, replica)
    assert replica.manifest.digest == origin.manifest.digest
    again = describe(destination, PATH, Format.FILES, unheard)
    assert again == replica


def test_a_checkpoint_that_was_stopped_anywhere_is_taken_up(
    way: tuple[ContentStore, ContentStore],
) -> None:
    source, destination = way
    origin = saved(source)
    stops = 0
    while True:
        heard = 0

        def stop(size_bytes: int, allowed: int = stops) -> None:
            nonlocal heard
            heard += 1
            if heard > allowed:
                raise Cancelled(str(PATH), "as planned")

        try:
            replica = copy(origin, source, destination, stop)
        except Cancelled:
            assert verify(destination, PATH, Depth.QUICK, unheard).health is Health.ABSENT
            stops += 1
        else:
            break
    assert stops > 4
    assert verify(destination, PATH, Depth.DEEP, unheard).replica == replica


def test_no_byte_of_a_checkpoint_comes_through_here_between_two_buckets(pair: Pair) -> None:
    origin = saved(pair.source)
    fake = pair.fake
    before = fake.faults.calls("objects.media") if fake else 0
    copy(origin, pair.source, pair.destination, unheard)
    copy(origin, pair.source, pair.destination, unheard)
    after = fake.faults.calls("objects.media") if fake else 1
    # The manifest is read, once: to see that the copy is there.
    assert after - before == 1


def test_a_bundle_is_rewritten_too(pair: Pair) -> None:
    digest = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    store_bundle(pair.source, digest, [b"1"], 1)
    assert copy_bundle(pair.source, pair.destination, digest, unheard) == 1
    there = pair.destination.stat(f"bundles/{digest}.tar.gz")
    assert there is not None
    assert read(pair.destination, there) == b"1"
