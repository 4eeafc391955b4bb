"""What Google's store does, as a table: the fake keeps it, and the real client says so."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import storage

from tests.fakes.gcs import CUT, HALF, LOST, WRONG, FakeGcs, serve

MIB = 1 << 20
ONCE: dict[str, Any] = {"retry": None}


@pytest.fixture
def fake() -> Iterator[FakeGcs]:
    with serve() as fake:
        fake.cloud.make_bucket("east", "us-east4", "STANDARD")
        fake.cloud.make_bucket("west", "us-west1", "STANDARD")
        yield fake


@pytest.fixture
def east(fake: FakeGcs) -> storage.Bucket:
    bucket: storage.Bucket = fake.client().bucket("east")
    return bucket


@pytest.fixture
def west(fake: FakeGcs) -> storage.Bucket:
    bucket: storage.Bucket = fake.client().bucket("west")
    return bucket


def put(bucket: storage.Bucket, name: str, data: bytes = b"1", **options: Any) -> storage.Blob:
    blob: storage.Blob = bucket.blob(name)
    blob.upload_from_string(data, content_type="application/x-shard", **ONCE, **options)
    return blob


def test_a_bucket_keeps_its_location_and_is_made_once(fake: FakeGcs) -> None:
    client = fake.client()
    client.create_bucket("north", location="europe-north1")
    assert client.get_bucket("north").location == "EUROPE-NORTH1"
    with pytest.raises(exceptions.Conflict):
        client.create_bucket("north", location="us-east4")
    with pytest.raises(exceptions.NotFound):
        client.get_bucket("south")


def test_a_write_makes_a_new_generation_and_a_patch_a_new_metageneration(
    east: storage.Bucket,
) -> None:
    first = put(east, "a")
    second = put(east, "a")
    assert (second.generation > first.generation, second.metageneration) == (True, 1)
    second.metadata = {"step": "7"}
    second.patch()
    seen = east.get_blob("a")
    assert (seen.generation, seen.metageneration, seen.metadata) == (
        second.generation,
        2,
        {"step": "7"},
    )
    assert (seen.content_type, seen.size, seen.crc32c) == ("application/x-shard", 1, "kPWZ4w==")


def refused_writes(bucket: storage.Bucket) -> dict[str, Callable[[], Any]]:
    """Each kind of call on an object that is there, with preconditions that do not hold."""
    there = put(bucket, "there", b"x" * 10)
    blob = bucket.blob("there")
    absent = {"if_generation_match": 0, **ONCE}
    older = {"if_generation_match": there.generation - 1, **ONCE}
    patched = bucket.blob("there")
    patched.metadata = {"a": "b"}
    source = put(bucket, "source")

    return {
        "upload": lambda: blob.upload_from_string(b"y", **absent),
        "upload older": lambda: blob.upload_from_string(b"y", **older),
        "upload metageneration": lambda: blob.upload_from_string(
            b"y", if_metageneration_match=9, **ONCE
        ),
        "upload not match": lambda: blob.upload_from_string(
            b"y", if_generation_not_match=there.generation, **ONCE
        ),
        "resumable upload": lambda: blob.create_resumable_upload_session(**absent),
        "patch": lambda: patched.patch(if_metageneration_match=9, **ONCE),
        "delete": lambda: blob.delete(**older),
        "delete metageneration": lambda: blob.delete(if_metageneration_match=9, **ONCE),
        "download": lambda: blob.download_as_bytes(**older),
        "stat": lambda: blob.reload(**older),
        "rewrite": lambda: blob.rewrite(source, **absent),
        "rewrite source": lambda: bucket.blob("new").rewrite(
            source, if_source_generation_match=1, if_generation_match=0, **ONCE
        ),
        "rewrite source metageneration": lambda: bucket.blob("new").rewrite(
            source, if_source_metageneration_match=9, **ONCE
        ),
    }


@pytest.mark.parametrize(
    "kind",
    [
        *("upload", "upload older", "upload metageneration", "upload not match"),
        *("resumable upload", "patch", "delete", "delete metageneration", "download", "stat"),
        *("rewrite", "rewrite source", "rewrite source metageneration"),
    ],
)
def test_a_precondition_that_does_not_hold_is_412_and_changes_nothing(
    east: storage.Bucket, kind: str
) -> None:
    calls = refused_writes(east)
    before = {blob.name: (blob.generation, blob.metageneration) for blob in east.list_blobs()}
    with pytest.raises(exceptions.PreconditionFailed):
        calls[kind]()
    after = {blob.name: (blob.generation, blob.metageneration) for blob in east.list_blobs()}
    assert after == before


def test_a_generation_that_was_replaced_is_not_found(east: storage.Bucket) -> None:
    first = put(east, "a", b"first")
    put(east, "a", b"second")
    calls: tuple[Callable[[], Any], ...] = (
        lambda: east.blob("a", generation=first.generation).download_as_bytes(),
        lambda: east.blob("a", generation=first.generation).reload(),
        lambda: east.blob("a", generation=first.generation).delete(),
        lambda: east.blob("b").rewrite(east.blob("a", generation=first.generation)),
    )
    for call in calls:
        with pytest.raises(exceptions.NotFound):
            call()
    assert east.blob("a").download_as_bytes() == b"second"


def test_a_rewrite_between_locations_takes_a_call_a_mebibyte_and_judges_the_target_at_the_last(
    fake: FakeGcs, east: storage.Bucket, west: storage.Bucket
) -> None:
    source = put(east, "a", b"x" * (2 * MIB + 5))
    target = west.blob("a")
    put(west, "a", b"taken")
    pinned = {
        "if_generation_match": 0,
        "if_source_generation_match": source.generation,
        "retry": None,
    }
    token, done, total = target.rewrite(source, **pinned)
    assert (done, total) == (MIB, 2 * MIB + 5)
    token, done, total = target.rewrite(source, token=token, **pinned)
    assert (done, total) == (2 * MIB, 2 * MIB + 5)
    with pytest.raises(exceptions.PreconditionFailed):
        target.rewrite(source, token=token, **pinned)
    west.blob("a").delete()
    # The token of a call whose answer was lost can be sent again.
    assert west.blob("a").rewrite(source, token=token, **pinned) == (None, 2 * MIB + 5, total)
    assert west.blob("a").download_as_bytes() == b"x" * (2 * MIB + 5)
    assert fake.faults.calls("objects.rewrite") == 4


def test_a_rewrite_within_a_location_is_one_call(east: storage.Bucket) -> None:
    source = put(east, "a", b"x" * (2 * MIB + 5))
    assert east.blob("b").rewrite(source) == (None, 2 * MIB + 5, 2 * MIB + 5)


def test_a_rewrite_token_holds_for_the_same_arguments_only(
    east: storage.Bucket, west: storage.Bucket
) -> None:
    source = put(east, "a", b"x" * (2 * MIB))
    token, _, _ = west.blob("a").rewrite(source, if_generation_match=0)
    other = west.blob("a")
    other.metadata = {"set": "later"}
    calls: tuple[Callable[[], Any], ...] = (
        lambda: west.blob("b").rewrite(source, token=token, if_generation_match=0),
        lambda: west.blob("a").rewrite(source, token=token),
        lambda: other.rewrite(source, token=token, if_generation_match=0),
        lambda: west.blob("a").rewrite(source, token="made-up", if_generation_match=0),
    )
    for call in calls:
        with pytest.raises(exceptions.BadRequest):
            call()


def test_a_source_that_is_replaced_in_the_midst_of_its_rewrite_ends_it(
    east: storage.Bucket, west: storage.Bucket
) -> None:
    source = put(east, "a", b"x" * (2 * MIB))
    token, _, _ = west.blob("a").rewrite(source, if_generation_match=0)
    put(east, "a", b"y" * (2 * MIB))
    with pytest.raises(exceptions.NotFound):
        west.blob("a").rewrite(source, token=token, if_generation_match=0)
    assert west.get_blob("a") is None


def test_a_rewrite_carries_the_sources_fields_unless_it_names_any(east: storage.Bucket) -> None:
    source = east.blob("a")
    source.metadata = {"step": "7"}
    source.cache_control = "no-store"
    source.upload_from_string(b"1", content_type="application/x-shard")
    east.blob("kept").rewrite(source)
    named = east.blob("named")
    named.metadata = {"run": "r1"}
    named.rewrite(source)
    kept, replaced = east.get_blob("kept"), east.get_blob("named")
    assert (kept.metadata, kept.cache_control, kept.content_type) == (
        {"step": "7"},
        "no-store",
        "application/x-shard",
    )
    assert (replaced.metadata, replaced.cache_control) == ({"run": "r1"}, None)
    assert replaced.content_type != "application/x-shard"


def test_a_listing_is_paged_and_ordered_and_knows_prefixes_and_delimiters(
    fake: FakeGcs, east: storage.Bucket
) -> None:
    for name in ("a/2", "a/10", "a/b/1", "a/b/2", "a/é", "b/1"):
        put(east, name)
    pages = east.list_blobs(prefix="a/", page_size=2, delimiter="/")
    seen = [[blob.name for blob in page] for page in pages.pages]
    assert (seen, pages.prefixes) == ([["a/10", "a/2"], ["a/é"]], {"a/b/"})
    assert [blob.name for blob in east.list_blobs(prefix="a/b/")] == ["a/b/1", "a/b/2"]
    assert list(east.list_blobs(prefix="none/")) == []
    assert fake.faults.calls("objects.list") == 4
    with pytest.raises(exceptions.NotFound):
        list(fake.client().list_blobs("south"))


def test_ranges_are_read_and_one_behind_the_end_is_416(east: storage.Bucket) -> None:
    blob = put(east, "a", b"0123456789")
    assert blob.download_as_bytes(start=2, end=4, checksum=None) == b"234"
    assert blob.download_as_bytes(start=8, end=99, checksum=None) == b"89"
    with pytest.raises(exceptions.RequestRangeNotSatisfiable):
        blob.download_as_bytes(start=10, checksum=None)


def test_a_wrong_checksum_is_refused_and_nothing_is_written(
    fake: FakeGcs, east: storage.Bucket
) -> None:
    blob = east.blob("a")
    blob.crc32c = "AAAAAA=="
    with pytest.raises(exceptions.BadRequest, match="doesn't match calculated CRC32C"):
        blob.upload_from_string(b"1", checksum=None)
    with pytest.raises(exceptions.BadRequest, match="doesn't match calculated CRC32C"):
        east.blob("a").upload_from_file(
            BytesIO(b"x" * 9 * MIB), size=9 * MIB, crc32c_checksum_value="AAAAAA==", checksum=None
        )
    session = east.blob("a").create_resumable_upload_session(if_generation_match=0)
    sent = requests.put(
        session,
        data=b"1",
        headers={"content-range": "bytes 0-0/1", "x-goog-hash": "crc32c=AAAAAA=="},
        timeout=10,
    )
    assert (sent.status_code, east.get_blob("a")) == (400, None)


def test_a_resumable_upload_keeps_multiples_of_256_kib_and_its_last_piece_can_be_sent_again(
    fake: FakeGcs, east: storage.Bucket
) -> None:
    session = east.blob("a").create_resumable_upload_session(if_generation_match=0)
    data = bytes(range(256)) * 2048  # 512 KiB
    fake.faults.plan("uploads.send", HALF)
    sent = _send(session, data, "bytes 0-524287/524289")
    assert (sent.status_code, sent.headers["range"]) == (308, "bytes=0-262143")
    assert _send(session, b"", "bytes */*").headers["range"] == "bytes=0-262143"
    assert _send(session, data[:300], "bytes 262444-262743/524289").status_code == 400
    rest = data[262144:] + b"!"
    fake.faults.plan("uploads.send", LOST)
    with pytest.raises(requests.ConnectionError):
        _send(session, rest, "bytes 262144-524288/524289")
    again = _send(session, rest, "bytes 262144-524288/524289")
    asked = _send(session, b"", "bytes */524289")
    assert again.status_code == asked.status_code == 200
    assert again.json() == asked.json()
    assert east.blob("a").download_as_bytes() == data + b"!"
    assert requests.delete(session, timeout=10).status_code == 499
    assert _send(session, b"", "bytes */*").status_code == 404


def test_a_resumable_upload_is_judged_at_its_end_too(fake: FakeGcs, east: storage.Bucket) -> None:
    session = east.blob("a").create_resumable_upload_session(if_generation_match=0)
    other = put(east, "a", b"other")
    assert _send(session, b"1", "bytes 0-0/1").status_code == 412
    assert east.get_blob("a").generation == other.generation


@pytest.mark.parametrize("status", [403, 404, 412, 429, 500, 503])
def test_a_planned_status_is_answered_once(
    fake: FakeGcs, east: storage.Bucket, status: int
) -> None:
    fake.faults.plan("objects.insert", status)
    with pytest.raises(exceptions.GoogleAPICallError) as raised:
        put(east, "a", if_generation_match=0)
    assert (raised.value.code, east.get_blob("a")) == (status, None)
    assert put(east, "a", if_generation_match=0).generation > 0


def test_an_answer_that_is_lost_was_done_and_a_cut_call_was_not(
    fake: FakeGcs, east: storage.Bucket
) -> None:
    fake.faults.plan("objects.insert", CUT, LOST)
    with pytest.raises(requests.ConnectionError):
        put(east, "a", b"1", if_generation_match=0)
    assert east.get_blob("a") is None
    with pytest.raises(requests.ConnectionError):
        put(east, "a", b"2", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        put(east, "a", b"2", if_generation_match=0)
    assert east.blob("a").download_as_bytes() == b"2"


def test_bytes_can_come_short_or_wrong(fake: FakeGcs, east: storage.Bucket) -> None:
    blob = put(east, "a", b"0123456789")
    fake.faults.plan("objects.media", HALF, WRONG)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        blob.download_as_bytes(**ONCE, checksum=None)
    assert blob.download_as_bytes(**ONCE, checksum=None) == b"0123456788"


def test_what_happens_in_the_world_happens_before_the_call(
    fake: FakeGcs, east: storage.Bucket
) -> None:
    first = put(east, "a", b"1")
    fake.faults.plan("objects.delete", lambda: put(east, "a", b"2"))
    with pytest.raises(exceptions.PreconditionFailed):
        east.blob("a").delete(if_generation_match=first.generation, **ONCE)
    assert east.blob("a").download_as_bytes() == b"2"


def test_who_has_no_token_is_401(fake: FakeGcs) -> None:
    fake.tokens = {"good"}
    where = f"{fake.url}/storage/v1/b/east/o"
    for token, status in (("good", 200), ("bad", 401)):
        answer = requests.get(where, headers={"authorization": f"Bearer {token}"}, timeout=10)
        assert answer.status_code == status


def _send(session: str, data: bytes, content_range: str) -> requests.Response:
    return requests.put(session, data=data, headers={"content-range": content_range}, timeout=10)
