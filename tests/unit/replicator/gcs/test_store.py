"""What only a bucket can get wrong: no bucket, no marker, objects as folders, foreign names."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from replicator.errors import NameRefused, StoreForbidden, StoreUnreachable
from replicator.stores import Entry
from replicator.stores.checkup import Standing
from replicator.stores.gcs import GcsStore, Location, read_location
from replicator.stores.gcs.objects import Seen
from replicator.stores.gcs.pieces import Piece, in_pieces
from tests.contract.replicator.pairs import BRIEF
from tests.fakes.checkpoints import unheard
from tests.unit.replicator.gcs.conftest import Scene

TREE = Path(__file__).parents[4]
LATE = """
import sys, replicator.stores, replicator.checkpoint.copy, replicator.bundle
print(sorted({"google.cloud", "requests", "tenacity"} & set(sys.modules)))
"""


def test_who_has_no_bucket_pays_for_no_client() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout == "[]\n"


CALLS = """
import threading
from tests.contract.replicator.pairs import fake_pair
before = set(threading.enumerate())
with fake_pair() as pair:
    pair.source.put("a/one", [b"1"])
    pair.source.list("a/")
    for each in set(threading.enumerate()) - before:
        if "fetch" in each.name:
            each.join()
    print(pair.fake.faults.calls("buckets.get"))
"""


def test_the_client_asks_for_nothing_that_it_was_not_told_to() -> None:
    told = subprocess.run(
        [sys.executable, "-c", CALLS],
        capture_output=True,
        text=True,
        check=False,
        cwd=TREE,
        timeout=60,
    )
    assert (told.stdout, told.returncode) == ("0\n", 0), told.stderr


def test_a_prefix_without_its_marker_is_unreachable_and_never_empty(scene: Scene) -> None:
    scene.east.put("a/one", [b"1"])
    scene.fake.cloud.delete("east", "broker/.store", {})
    for operation in (
        lambda: scene.east.list("b/"),
        lambda: scene.east.stat("a/two"),
        lambda: scene.east.delete("a/two"),
        lambda: list(scene.east.read("a/two", "1")),
    ):
        with pytest.raises(StoreUnreachable, match="not a store"):
            operation()


def test_a_bucket_that_is_not_there_is_unreachable(scene: Scene) -> None:
    scene.fake.cloud.drop_bucket("east")
    for operation in (
        lambda: scene.east.list("a/"),
        lambda: scene.east.stat("a/one"),
        lambda: scene.east.put("a/one", [b"1"]),
        lambda: scene.east.write_if_absent("a/one", [b"1"]),
        lambda: scene.east.delete("a/one"),
        lambda: scene.east.tidy("a/"),
        lambda: list(scene.east.read("a/one", "1")),
    ):
        with pytest.raises(StoreUnreachable):
            operation()


def test_nothing_is_written_to_what_was_never_made_a_store(scene: Scene) -> None:
    scene.fake.cloud.make_bucket("plain", "EU", "STANDARD")
    plain = GcsStore(scene.access, Location(bucket="plain", folder=""), BRIEF, scene.notes)
    entry = scene.east.put("a/one", [b"1"])
    operations: tuple[Callable[[], object], ...] = (
        lambda: plain.put("a/one", [b"1"]),
        lambda: plain.write_if_absent("a/one", [b"1"]),
        lambda: plain.copy_from(scene.east, "a/one", entry.generation, unheard),
    )
    for operation in operations:
        with pytest.raises(StoreUnreachable, match="not a store"):
            operation()
    assert scene.fake.cloud.bucket("plain").objects == {}
    plain.create()
    plain.create()
    plain.put("a/one", [b"1"])
    assert sorted(scene.fake.cloud.bucket("plain").objects) == [".store", "a/one"]


def test_a_bucket_tells_where_it_stands_and_whether_it_may_be_known(scene: Scene) -> None:
    scene.fake.cloud.make_bucket("far", "europe-west4", "STANDARD")
    far = GcsStore(scene.access, Location(bucket="far", folder=""), BRIEF, scene.notes)
    assert far.standing() == Standing(location="europe-west4", is_one_place=True)
    scene.fake.faults.plan("buckets.get", 403)
    with pytest.raises(StoreForbidden, match="403"):
        far.standing()


def test_two_stores_in_one_bucket_do_not_see_each_other(scene: Scene) -> None:
    other = GcsStore(scene.access, Location(bucket="east", folder="broker/a/"), BRIEF, scene.notes)
    other.create()
    other.put("a/one", [b"1"])
    assert other.stat("a/one") is not None
    assert scene.east.stat("a/one") is None


def test_what_stands_for_a_folder_is_no_content_and_is_tidied_when_it_is_empty(
    scene: Scene,
) -> None:
    for name in ("a/", "a/b/", "a/c/", "a/c/d/", "ab/"):
        scene.other_writes(name, b"")
    scene.east.put("a/b/one", [b"1"])
    listing = scene.east.list("a/")
    assert ([entry.name for entry in listing.entries], listing.refused) == (["a/b/one"], ())
    scene.east.tidy("a/")
    held = sorted(scene.fake.cloud.bucket("east").objects)
    assert held == [
        "broker/.store",
        "broker/a/",
        "broker/a/b/",
        "broker/a/b/one",
        "broker/ab/",
    ]


def test_names_that_no_directory_could_keep_are_told_and_not_listed(scene: Scene) -> None:
    for name in ("a/one", "a/../two", "a//three", "a/b\\four", "a/five/"):
        scene.other_writes(name, b"1")
    listing = scene.east.list("a/")
    assert [entry.name for entry in listing.entries] == ["a/one"]
    assert [one.name for one in listing.refused] == [
        "a/../two",
        "a//three",
        "a/b\\\\four",
        "a/five/",
    ]


def test_a_listing_of_many_pages_is_whole(scene: Scene) -> None:
    names = [f"a/{number:05}" for number in range(2_300)]
    for name in names:
        scene.other_writes(name, b"1")
    assert [entry.name for entry in scene.east.list("a/").entries] == names
    assert scene.fake.faults.calls("objects.list") == 3


def test_a_copy_carries_what_is_said_of_its_source(scene: Scene) -> None:
    custom = "2026-05-01T00:00:00Z"
    scene.fake.cloud.insert(
        "east",
        "broker/a/one",
        b"1",
        {
            "contentType": "application/x-shard",
            "cacheControl": "no-store",
            "contentEncoding": "gzip",
            "customTime": custom,
            "metadata": {"step": "7", "broker-write": "of the source"},
        },
        {},
    )
    entry = scene.east.stat("a/one")
    assert entry is not None
    scene.west.copy_from(scene.east, "a/one", entry.generation, unheard)
    fields = dict(scene.fake.cloud.bucket("west").objects["broker/a/one"].fields)
    moment = datetime.fromisoformat(str(fields.pop("customTime")))
    assert moment == datetime(2026, 5, 1, tzinfo=UTC)
    assert fields == {
        "contentType": "application/x-shard",
        "cacheControl": "no-store",
        "contentEncoding": "gzip",
        "metadata": {
            "step": "7",
            "broker-source": "gs://east/broker/a/one",
            "broker-source-generation": entry.generation,
        },
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gs://bucket", Location(bucket="bucket", folder="")),
        ("gs://bucket/", Location(bucket="bucket", folder="")),
        ("gs://my-bucket.example/a/b", Location(bucket="my-bucket.example", folder="a/b/")),
        ("gs://my_bucket/a/b/", Location(bucket="my_bucket", folder="a/b/")),
    ],
)
def test_a_location_is_read(text: str, expected: Location) -> None:
    assert read_location(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bucket",
        "/a",
        "gs:/bucket",
        "s3://bucket",
        "gs://",
        "gs://B",
        "gs://a",
        "gs://bucket/a/../b",
    ],
)
def test_what_is_no_location_is_refused(text: str) -> None:
    with pytest.raises(NameRefused):
        read_location(text)


def test_a_name_that_is_too_long_in_its_bucket_is_refused(scene: Scene) -> None:
    name = "/".join(["x" * 200] * 5) + "/" + "y" * 18
    with pytest.raises(NameRefused, match="with its store's folder"):
        scene.east.put(name, [b"1"])


def seen(crc32c: str | None, md5: str | None, size_bytes: int = 1) -> Seen:
    entry = Entry(name="a", size_bytes=size_bytes, generation="1", modified_s=0.0, crc32c=crc32c)
    return Seen(entry=entry, md5=md5, metadata={}, fields={})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (seen("AAAAAA==", "x"), True),
        (seen("AAAAAA==", None), True),
        (seen("AAAAAA==", "y"), False),
        (seen("BBBBBB==", "x"), False),
        (seen("AAAAAA==", "x", size_bytes=2), False),
    ],
)
def test_two_objects_are_alike_by_all_that_is_said_of_their_bytes(
    other: Seen, expected: bool
) -> None:
    assert seen("AAAAAA==", "x").has_bytes_of(other) is expected


def test_objects_of_which_no_checksum_is_said_are_not_alike() -> None:
    assert not seen(None, None).has_bytes_of(seen(None, None))


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        ([], [Piece(0, b"", True)]),
        ([b"", b""], [Piece(0, b"", True)]),
        ([b"12", b"34"], [Piece(0, b"1234", True)]),
        ([b"12345"], [Piece(0, b"1234", False), Piece(4, b"5", True)]),
        ([b"12345678"], [Piece(0, b"1234", False), Piece(4, b"5678", True)]),
        (
            [b"123456789", b"0"],
            [Piece(0, b"1234", False), Piece(4, b"5678", False), Piece(8, b"90", True)],
        ),
    ],
)
def test_a_stream_is_cut_and_its_last_piece_is_known(
    chunks: list[bytes], pieces: list[Piece]
) -> None:
    assert list(in_pieces(chunks, 4)) == pieces
