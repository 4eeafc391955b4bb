"""What a store does when Google does not answer, answers no, or answers twice."""

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from google.auth.credentials import AnonymousCredentials, Credentials

from replicator.errors import (
    Changed,
    Corrupt,
    StoreError,
    StoreForbidden,
    StoreUnreachable,
)
from replicator.stores import Entry
from replicator.stores.gcs import GcsStore, Location, open_access
from tests.contract.replicator.pairs import BRIEF
from tests.fakes.checkpoints import unheard
from tests.fakes.gcs import CUT, HALF, LOST, WRONG
from tests.fakes.gcs.faults import Fault
from tests.unit.replicator.gcs.conftest import Scene

PIECE = 8 << 20
LARGE = bytes(range(256)) * (2 * PIECE // 256) + b"end"


def read(store: GcsStore, entry: Entry) -> bytes:
    with closing(store.read(entry.name, entry.generation)) as chunks:
        return b"".join(chunks)


# Each call on a store where a/one is b"there", what it is to return, and the operation it rests on.
CALLS: dict[str, tuple[str, Callable[[GcsStore], object], Callable[[object], object], object]] = {
    "list": (
        "objects.list",
        lambda store: store.list("a/"),
        lambda found: [one.name for one in found.entries],  # type: ignore[attr-defined]
        ["a/one"],
    ),
    "stat": (
        "objects.get",
        lambda store: store.stat("a/one"),
        lambda found: found.size_bytes,  # type: ignore[attr-defined]
        5,
    ),
    "read": (
        "objects.media",
        lambda store: read(store, store.list("a/").entries[0]),
        lambda found: found,
        b"there",
    ),
    "delete": ("objects.delete", lambda store: store.delete("a/one"), lambda done: done, True),
    "put": (
        "objects.insert",
        lambda store: read(store, store.put("a/one", [b"new"])),
        lambda found: found,
        b"new",
    ),
    "write_if_absent": (
        "objects.insert",
        lambda store: store.write_if_absent("a/two", [b"new"]),
        lambda found: found.size_bytes,  # type: ignore[attr-defined]
        3,
    ),
}


@pytest.mark.parametrize("fault", [503, 429, 500, 408, CUT, LOST], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_trouble_that_passes_changes_nothing(scene: Scene, call: str, fault: Fault) -> None:
    scene.east.put("a/one", [b"there"])
    operation, act, shown, expected = CALLS[call]
    scene.fake.faults.asked.clear()
    scene.fake.faults.plan(operation, fault)
    assert shown(act(scene.east)) == expected
    assert scene.fake.faults.calls(operation) == 2


@pytest.mark.parametrize("call", CALLS)
def test_a_trouble_that_stays_is_silence_after_a_bounded_number_of_calls(
    scene: Scene, call: str
) -> None:
    scene.east.put("a/one", [b"there"])
    operation, act, _, _ = CALLS[call]
    scene.fake.faults.asked.clear()
    scene.fake.faults.plan(operation, *[503] * 50)
    with pytest.raises(StoreUnreachable, match="503"):
        act(scene.east)
    assert scene.fake.faults.calls(operation) == BRIEF.attempts


def test_a_store_that_hangs_is_silence(scene: Scene) -> None:
    access = open_access(AnonymousCredentials(), scene.fake.url)
    hasty = GcsStore(
        access,
        Location(bucket="east", folder="broker/"),
        replace(BRIEF, answer_s=0.05, attempts=2),
        scene.notes,
    )
    over = threading.Event()
    scene.fake.faults.plan("objects.list", *[lambda: over.wait(60)] * 2)
    try:
        with pytest.raises(StoreUnreachable, match="no answer"):
            hasty.list("a/")
    finally:
        over.set()
        access.close()


def test_a_creation_whose_answer_is_lost_is_a_win_and_one_that_lost_is_not(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", LOST)
    assert scene.east.write_if_absent("a/one", [b"same"]) == scene.east.stat("a/one")
    # The same bytes, of somebody else: a record that two create alike has one creator.
    scene.other_writes("a/two", b"same")
    scene.fake.faults.plan("objects.insert", CUT)
    assert scene.east.write_if_absent("a/two", [b"same"]) is None


def test_a_creation_that_was_replaced_before_it_was_sent_again_is_no_win(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", LOST, lambda: scene.other_writes("a/one", b"theirs"))
    assert scene.east.write_if_absent("a/one", [b"ours"]) is None
    assert scene.held("a/one") == b"theirs"


def test_a_replacement_whose_answer_is_lost_is_made_once(scene: Scene) -> None:
    scene.east.put("a/one", [b"before"])
    scene.fake.faults.plan("objects.insert", LOST)
    written = scene.east.put("a/one", [b"after"])
    assert written == scene.east.stat("a/one")
    generations = scene.fake.cloud.bucket("east").objects["broker/a/one"].generation
    assert written.generation == str(generations)


def test_a_replacement_that_met_another_writer_looks_again(scene: Scene) -> None:
    scene.fake.faults.plan("objects.insert", lambda: scene.other_writes("a/one", b"theirs"))
    scene.east.put("a/one", [b"ours"])
    assert scene.held("a/one") == b"ours"


def test_a_deletion_does_not_reach_what_came_after_it(scene: Scene) -> None:
    scene.east.put("a/one", [b"old"])
    scene.fake.faults.plan("objects.delete", LOST, lambda: scene.other_writes("a/one", b"new"))
    assert scene.east.delete("a/one") is True
    assert scene.held("a/one") == b"new"


@pytest.mark.parametrize(
    "faults",
    [
        [HALF],
        [None, HALF, HALF],
        [LOST],
        [None, None, LOST],
        [CUT, CUT, None, 503, LOST],
        [503, HALF, CUT, LOST, 500],
    ],
    ids=str,
)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_long_write_goes_on_where_the_store_is(
    scene: Scene, faults: list[Fault], replaces: bool
) -> None:
    scene.fake.faults.plan("uploads.send", *faults)
    write = scene.east.put if replaces else scene.east.write_if_absent
    chunks = (LARGE[at : at + 1_000_000] for at in range(0, len(LARGE), 1_000_000))
    entry = write("a/one", chunks)
    assert entry is not None
    assert (entry, scene.held("a/one")) == (scene.east.stat("a/one"), LARGE)
    assert scene.fake.faults.calls("uploads.start") == 1


def test_a_piece_that_came_is_not_sent_again(scene: Scene) -> None:
    scene.fake.faults.plan("uploads.send", LOST, None, HALF)
    scene.east.put("a/one", [LARGE])
    assert [query["range"] for query in scene.fake.faults.queries("uploads.send")] == [
        "bytes 0-8388607/*",
        "bytes */*",
        "bytes 8388608-16777215/*",
        "bytes 12582912-16777215/*",
        "bytes 16777216-16777218/16777219",
    ]


def test_a_long_write_that_the_store_forgot_fails_and_shows_nothing(scene: Scene) -> None:
    scene.fake.faults.plan("uploads.send", None, 404)
    with pytest.raises(StoreError, match="not known any more") as raised:
        scene.east.put("a/one", [LARGE])
    assert (raised.value.can_retry, scene.held("a/one")) == (True, None)


def test_a_long_write_that_another_was_faster_than_is_no_win(scene: Scene) -> None:
    scene.fake.faults.plan(
        "uploads.send", None, None, lambda: scene.other_writes("a/one", b"theirs")
    )
    assert scene.east.write_if_absent("a/one", [LARGE]) is None
    assert scene.held("a/one") == b"theirs"


def test_a_long_write_whose_source_fails_is_cancelled(scene: Scene) -> None:
    def failing() -> Iterator[bytes]:
        yield LARGE
        raise Corrupt("a/one", "as planned")

    with pytest.raises(Corrupt):
        scene.east.put("a/one", failing())
    assert (scene.held("a/one"), scene.fake.uploads.open()) == (None, 0)


def test_bytes_that_come_short_are_asked_for_again_and_wrong_ones_are_an_error(
    scene: Scene,
) -> None:
    entry = scene.east.put("a/one", [LARGE])
    scene.fake.faults.plan("objects.media", HALF, None, HALF)
    assert read(scene.east, entry) == LARGE
    scene.fake.faults.plan("objects.media", None, WRONG)
    with pytest.raises(StoreError, match="not those of its crc32c"):
        read(scene.east, entry)


def test_an_object_that_is_replaced_between_two_ranges_is_changed(scene: Scene) -> None:
    entry = scene.east.put("a/one", [LARGE])
    scene.fake.faults.plan("objects.media", None, lambda: scene.other_writes("a/one", LARGE))
    with pytest.raises(Changed):
        read(scene.east, entry)


def test_a_rewrite_keeps_its_arguments_through_every_trouble(scene: Scene) -> None:
    data = LARGE[: (3 << 20) + 1]
    entry = scene.east.put("a/one", [data])
    scene.fake.faults.plan("objects.rewrite", 503, None, LOST, CUT, None, LOST)
    copied = scene.west.copy_from(scene.east, "a/one", entry.generation, unheard)
    assert (copied, scene.held("a/one", "west")) == (scene.west.stat("a/one"), data)
    queries = scene.fake.faults.queries("objects.rewrite")
    steady = [{k: v for k, v in query.items() if k != "rewriteToken"} for query in queries]
    assert all(one == steady[0] for one in steady)
    assert steady[0].items() >= {
        ("ifGenerationMatch", "0"),
        ("ifSourceGenerationMatch", entry.generation),
        ("sourceGeneration", entry.generation),
    }


def test_a_rewrite_that_another_was_faster_than_is_judged_by_its_bytes(scene: Scene) -> None:
    entry = scene.east.put("a/one", [b"right"])
    scene.fake.faults.plan("objects.rewrite", lambda: scene.other_writes("a/one", b"right", "west"))
    copied = scene.west.copy_from(scene.east, "a/one", entry.generation, unheard)
    assert (copied, scene.fake.faults.calls("objects.rewrite")) == (scene.west.stat("a/one"), 1)
    entry = scene.east.put("a/two", [b"right"])
    scene.fake.faults.plan("objects.rewrite", lambda: scene.other_writes("a/two", b"wrong", "west"))
    scene.west.copy_from(scene.east, "a/two", entry.generation, unheard)
    assert scene.held("a/two", "west") == b"right"


def test_a_source_that_is_replaced_in_the_midst_of_a_rewrite_is_changed(scene: Scene) -> None:
    entry = scene.east.put("a/one", [LARGE])
    scene.fake.faults.plan("objects.rewrite", None, lambda: scene.other_writes("a/one", LARGE))
    with pytest.raises(Changed):
        scene.west.copy_from(scene.east, "a/one", entry.generation, unheard)
    assert scene.held("a/one", "west") is None


def test_a_bucket_that_is_gone_is_silent_to_a_copy_too(scene: Scene) -> None:
    entry = scene.east.put("a/one", [b"1"])
    scene.west.put("a/two", [b"1"])
    scene.fake.cloud.drop_bucket("west")
    with pytest.raises(StoreUnreachable, match="not a store"):
        scene.west.copy_from(scene.east, "a/one", entry.generation, unheard)


def test_a_refusal_is_not_asked_again_and_says_why_and_nothing_that_opens_a_door(
    scene: Scene,
) -> None:
    scene.fake.faults.plan("uploads.send", 403)
    with pytest.raises(StoreForbidden) as raised:
        scene.east.put("a/one", [LARGE])
    assert str(raised.value) == "a/one: 403 As the script says: 403."
    assert scene.fake.faults.calls("uploads.send") == 1
    scene.fake.faults.plan("uploads.send", *[CUT] * 50)
    with pytest.raises(StoreUnreachable) as silent:
        scene.east.put("a/one", [LARGE])
    for error in (raised.value, silent.value):
        told = "".join(traceback.format_exception(error))
        assert ("a/one" in told, "upload_id" in told, scene.fake.url in told) == (
            True,
            False,
            False,
        )


class Renewed(Credentials):
    """Credentials whose next token is always the next one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token = "token-1"
        self.renewals = 0

    def refresh(self, request: object) -> None:
        self.renewals += 1
        self.token = f"token-{self.renewals + 1}"

    @property
    def expired(self) -> bool:
        return False

    @property
    def valid(self) -> bool:
        return True


def test_a_token_that_ends_in_the_midst_of_a_write_is_renewed(scene: Scene) -> None:
    credentials = Renewed()
    scene.fake.tokens = {"token-1"}
    access = open_access(credentials, scene.fake.url)
    store = GcsStore(access, Location(bucket="east", folder="broker/"), BRIEF, scene.notes)

    def end() -> None:
        scene.fake.tokens = {"token-2"}

    scene.fake.faults.plan("uploads.send", None, end)
    try:
        entry = store.put("a/one", [LARGE])
        assert (read(store, entry), credentials.renewals) == (LARGE, 1)
    finally:
        access.close()
