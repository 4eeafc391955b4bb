"""A bucket as a store of the start protocol: what Google and the metadata server can do to it."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from regions.launcher import bundle
from regions.launcher.bucket import BucketStore
from regions.launcher.layout import bundle_key
from regions.launcher.store import StoreUnreachable, read_bounded
from regions.launcher.tokens import Tokens
from tests.contract.launcher.shelves import BUCKET, CALL_S, FOLDER, TRAINING, buckets
from tests.fakes.gcs import CUT, HALF, LOST, FakeGcs
from tests.fakes.gcs.faults import Fault
from tests.fakes.metadata_server import FakeMetadata


@dataclass(frozen=True, slots=True)
class Scene:
    fake: FakeGcs
    metadata: FakeMetadata
    store: BucketStore

    def held(self, key: str) -> bytes | None:
        """Return what the bucket holds, past the store."""
        found = self.fake.cloud.bucket(BUCKET).objects.get(f"{FOLDER}/{key}")
        return found.data if found else None

    def other_writes(self, key: str, data: bytes) -> None:
        """Let somebody else write."""
        self.fake.cloud.insert(BUCKET, f"{FOLDER}/{key}", data, {}, {})

    def calls(self, operation: str) -> int:
        """Return how many calls of an operation came."""
        return self.fake.faults.calls(operation)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A store that was written to: its marker was seen."""
    with buckets() as (fake, metadata, store):
        store.put("a/one", b"there")
        fake.faults.asked.clear()
        yield Scene(fake, metadata, store)


CALLS: dict[str, tuple[str, Callable[[BucketStore], object], object]] = {
    "get": ("objects.media", lambda store: read_bounded(store, "a/one", 10), b"there"),
    "list": ("objects.list", lambda store: store.list("a/"), ("one",)),
    "create": ("objects.insert", lambda store: store.create_if_absent("a/two", b"2"), True),
    "delete": ("objects.delete", lambda store: store.delete("a/one"), None),
}


@pytest.mark.parametrize("fault", [503, 429, 500, CUT, LOST], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_trouble_that_passes_changes_nothing(scene: Scene, call: str, fault: Fault) -> None:
    operation, act, expected = CALLS[call]
    scene.fake.faults.plan(operation, fault)
    assert act(scene.store) == expected
    assert scene.calls(operation) == 2


@pytest.mark.parametrize("call", CALLS)
def test_a_trouble_that_stays_is_silence_after_a_bounded_number_of_calls(
    scene: Scene, call: str
) -> None:
    operation, act, _ = CALLS[call]
    scene.fake.faults.plan(operation, *[503] * 50)
    with pytest.raises(StoreUnreachable, match="503"):
        act(scene.store)
    assert 1 < scene.calls(operation) < 12


@pytest.mark.parametrize("fault", [503, 429, CUT, LOST], ids=str)
def test_a_beat_is_sent_once(scene: Scene, fault: Fault) -> None:
    scene.fake.faults.plan("objects.insert", fault)
    with pytest.raises(StoreUnreachable):
        scene.store.put("a/one", b"beat")
    assert scene.calls("objects.insert") == 1
    scene.store.put("a/one", b"next beat")
    assert scene.held("a/one") == b"next beat"


def test_a_refusal_is_not_asked_again(scene: Scene) -> None:
    scene.fake.faults.plan("objects.media", 403)
    with pytest.raises(StoreUnreachable, match="a/one: the store answers 403"):
        scene.store.get("a/one")
    assert scene.calls("objects.media") == 1


def test_a_creation_whose_answer_is_lost_is_a_win(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", LOST, LOST)
    assert scene.store.create_if_absent("owner", b"ours")
    assert (scene.held("owner"), scene.calls("objects.insert")) == (b"ours", 3)


def test_the_same_bytes_of_somebody_else_are_no_win(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", CUT, lambda: scene.other_writes("owner", b"same"))
    assert not scene.store.create_if_absent("owner", b"same")


def test_a_creation_that_is_gone_when_it_is_sent_again_is_no_win_of_another(scene: Scene) -> None:
    def replaced() -> None:
        scene.other_writes("owner", b"theirs")

    scene.fake.faults.plan("objects.insert", LOST, replaced)
    assert not scene.store.create_if_absent("owner", b"ours")
    assert scene.held("owner") == b"theirs"


def test_a_creation_that_another_was_faster_than_asks_nothing_more(scene: Scene) -> None:
    assert not scene.store.create_if_absent("a/one", b"mine")
    assert [operation for operation, _ in scene.fake.faults.asked] == ["objects.insert"]


def test_a_token_that_is_refused_is_replaced_once(scene: Scene) -> None:
    assert scene.fake.tokens is not None
    scene.fake.tokens.clear()
    assert read_bounded(scene.store, "a/one", 10) == b"there"
    assert scene.metadata.faults.calls("token") == 2
    scene.fake.faults.plan("objects.media", 401, 401)
    with pytest.raises(StoreUnreachable, match="401"):
        scene.store.get("a/one")
    assert scene.metadata.faults.calls("token") == 3


def test_a_token_is_asked_for_once_while_it_holds(scene: Scene) -> None:
    for _ in range(3):
        scene.store.list("a/")
    assert scene.metadata.faults.calls("token") == 1


@pytest.mark.parametrize("fault", [503, 404, CUT], ids=str)
def test_without_a_token_the_store_is_silent_until_there_is_one(scene: Scene, fault: Fault) -> None:
    fresh = BucketStore(scene.store.location, Tokens(scene.metadata.url), scene.fake.url, CALL_S)
    scene.metadata.faults.plan("token", *[fault] * 50)
    with pytest.raises(StoreUnreachable, match="no token could be had"):
        fresh.get("a/one")
    scene.metadata.faults.scripts.clear()
    assert read_bounded(fresh, "a/one", 10) == b"there"
    fresh.close()


def test_while_a_renewal_ahead_hangs_the_token_in_hand_is_used(scene: Scene) -> None:
    scene.metadata.expires_in_s = 60.0
    fresh = BucketStore(scene.store.location, Tokens(scene.metadata.url), scene.fake.url, CALL_S)
    assert read_bounded(fresh, "a/one", 10) == b"there"
    over = threading.Event()
    scene.metadata.faults.plan("token", lambda: over.wait(60))
    try:
        assert read_bounded(fresh, "a/one", 10) == b"there"
        assert read_bounded(fresh, "a/one", 10) == b"there"
        assert scene.metadata.faults.calls("token") == 3
    finally:
        over.set()
        fresh.close()


def test_a_token_of_a_file_is_read_anew_for_each_call(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "token"
    given = BucketStore(scene.store.location, Tokens(str(file)), scene.fake.url, CALL_S)
    with pytest.raises(StoreUnreachable, match="no token could be read"):
        given.get("a/one")
    file.write_text(f"{TRAINING}\n")
    assert read_bounded(given, "a/one", 10) == b"there"
    for told in ("", "two words", "an-old-one"):
        file.write_text(told)
        with pytest.raises(StoreUnreachable) as raised:
            given.get("a/one")
        assert not told or told not in str(raised.value)
    given.close()


def test_a_value_that_comes_short_is_silence(scene: Scene, tmp_path: Path) -> None:
    scene.fake.faults.plan("objects.media", HALF)
    with pytest.raises(StoreUnreachable, match="broke off"):
        read_bounded(scene.store, "a/one", 10)
    scene.store.put(bundle_key("0" * 64), b"x" * 1_000_000)
    scene.fake.faults.plan("objects.media", HALF)
    with pytest.raises(StoreUnreachable, match="broke off"):
        bundle.prepare(scene.store, "0" * 64, str(tmp_path / "b"), str(tmp_path / "s"))


def test_an_absence_counts_only_while_the_marker_is_there(scene: Scene) -> None:
    assert scene.store.get("a/none") is None
    assert scene.store.list("none/") == ()
    scene.fake.cloud.delete(BUCKET, f"{FOLDER}/.store", {})
    for call in (
        lambda: scene.store.get("a/none"),
        lambda: scene.store.list("none/"),
        lambda: scene.store.delete("a/none"),
    ):
        with pytest.raises(StoreUnreachable, match="not a store"):
            call()
    assert scene.store.list("a/") == ("one",)


def test_nothing_is_written_to_what_was_never_made_a_store(scene: Scene) -> None:
    tokens = Tokens(scene.metadata.url)
    elsewhere = BucketStore(f"gs://{BUCKET}/elsewhere", tokens, scene.fake.url, CALL_S)
    for write in (elsewhere.put, elsewhere.create_if_absent):
        with pytest.raises(StoreUnreachable, match="not a store"):
            write("a", b"1")
    absent = BucketStore("gs://absent", tokens, scene.fake.url, CALL_S)
    for call in (absent.get, lambda key: absent.list(key + "/"), absent.delete):
        with pytest.raises(StoreUnreachable):
            call("a")
    assert all(name.startswith(f"{FOLDER}/") for name in scene.fake.cloud.bucket(BUCKET).objects)
    elsewhere.create()
    elsewhere.put("a", b"1")
    assert elsewhere.list("") == ("a",)
    elsewhere.close()
    absent.close()


def test_a_folder_of_many_pages_is_whole_and_what_stands_for_it_is_no_name(scene: Scene) -> None:
    names = tuple(f"n{number:05}" for number in range(2_300))
    for name in ("", *names):
        scene.other_writes(f"many/{name}", b"")
    scene.other_writes("many/deeper/one", b"")
    assert scene.store.list("many/") == ("deeper/", *names)
    assert scene.calls("objects.list") == 3


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"items": 1}', b'{"items": [{}]}', b"\xff"])
def test_a_listing_that_is_none_is_silence(
    scene: Scene, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fakes.gcs import routes
    from tests.fakes.gcs.wire import Answer

    monkeypatch.setattr(routes, "json_answer", lambda value, status=200: Answer(200, body))
    with pytest.raises(StoreUnreachable):
        scene.store.list("a/")
