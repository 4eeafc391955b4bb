"""A kill begins nothing anew: a copy or a long write goes on where it was, one piece sent again."""

import stat
from collections.abc import Callable, Iterator

import pytest

from replicator.errors import StoreError, StoreUnreachable
from replicator.stores.gcs import GcsStore, Location
from replicator.stores.gcs.uploading import PIECE_BYTES
from tests.contract.replicator.pairs import BRIEF
from tests.fakes.checkpoints import unheard
from tests.unit.replicator.gcs.conftest import Scene

CHUNK = 1 << 20
DATA = bytes(range(256)) * (4 * PIECE_BYTES // 256) + b"the rest"


class Killed(BaseException):
    """The process died: no handler runs."""


def chunks(data: bytes = DATA) -> Iterator[bytes]:
    for at in range(0, len(data), CHUNK):
        yield data[at : at + CHUNK]


def broken(after: int, error: BaseException, data: bytes = DATA) -> Iterator[bytes]:
    """So many pieces, and some of the next, and then what befalls the process or its source."""
    for number, chunk in enumerate(chunks(data)):
        if number * CHUNK > after * PIECE_BYTES + CHUNK:
            raise error
        yield chunk


def reborn(scene: Scene, bucket: str = "east") -> GcsStore:
    """The store as the next process has it: it knows the notes, and nothing else."""
    location = Location(bucket=bucket, folder="broker/")
    return GcsStore(scene.access, location, BRIEF, scene.notes)


def sent_bytes(scene: Scene) -> int:
    ranges = [query["range"] for query in scene.fake.faults.queries("uploads.send")]
    spans = [one.removeprefix("bytes ").partition("/")[0].split("-") for one in ranges]
    return sum(int(last) - int(first) + 1 for first, *rest in spans for last in rest)


def is_noted(scene: Scene) -> bool:
    return scene.notes.folder.is_dir() and any(scene.notes.folder.iterdir())


@pytest.mark.parametrize("is_new", [True, False], ids=["created", "replaced"])
@pytest.mark.parametrize("error", [Killed(), StoreUnreachable("gs://", "silent")], ids=str)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_long_write_goes_on_in_the_next_life(
    scene: Scene, after: int, error: BaseException, is_new: bool
) -> None:
    def write(store: GcsStore, pieces: Iterator[bytes]) -> object:
        put = store.write_if_absent if is_new else store.put
        return put("a/one", pieces)

    with pytest.raises(type(error)):
        write(scene.east, broken(after, error))
    assert scene.held("a/one") is None
    assert write(reborn(scene), chunks()) is not None
    assert scene.held("a/one") == DATA
    assert sent_bytes(scene) <= len(DATA) + PIECE_BYTES
    assert not is_noted(scene)


def test_a_write_of_other_bytes_is_never_made_of_two(scene: Scene) -> None:
    with pytest.raises(Killed):
        scene.east.put("a/one", broken(2, Killed()))
    other = b"!" + DATA[1:]
    with pytest.raises(StoreError, match="CRC32C"):
        reborn(scene).put("a/one", chunks(other))
    assert scene.held("a/one") is None
    reborn(scene).put("a/one", chunks(other))
    assert scene.held("a/one") == other


def test_what_the_store_knows_no_more_is_begun_anew(scene: Scene) -> None:
    with pytest.raises(Killed):
        scene.east.put("a/one", broken(2, Killed()))
    scene.fake.uploads._sessions.clear()
    reborn(scene).put("a/one", chunks())
    assert scene.held("a/one") == DATA
    assert not is_noted(scene)


def test_a_note_that_cannot_be_read_or_written_costs_no_more_than_the_kill(scene: Scene) -> None:
    with pytest.raises(Killed):
        scene.east.put("a/one", broken(2, Killed()))
    (note,) = scene.notes.folder.iterdir()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    for text in ("", "[]", "{", '{"address": 5}', '{"address": "http://127.0.0.1:1/"}'):
        note.write_text(text)
        with pytest.raises(Killed):
            reborn(scene).put("a/one", broken(0, Killed()))
    note.unlink()
    scene.notes.folder.rmdir()
    scene.notes.folder.write_text("in the way")
    reborn(scene).put("a/one", chunks())
    assert scene.held("a/one") == DATA
    scene.notes.folder.unlink()
    scene.notes.folder.mkdir()


def killing(after: int) -> Callable[[int], None]:
    calls = 0

    def hear(size_bytes: int) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Killed

    return hear


@pytest.mark.parametrize("after", [0, 3, 7])
def test_a_copy_between_buckets_goes_on_in_the_next_life(scene: Scene, after: int) -> None:
    data = bytes(10 * CHUNK + 5)
    entry = scene.east.put("a/one", [data])
    scene.fake.faults.asked.clear()
    with pytest.raises(Killed):
        scene.west.copy_from(scene.east, "a/one", entry.generation, killing(after))
    assert scene.held("a/one", "west") is None
    reborn(scene, "west").copy_from(scene.east, "a/one", entry.generation, unheard)
    assert scene.held("a/one", "west") == data
    assert scene.fake.faults.calls("objects.rewrite") == 11
    assert not is_noted(scene)


def test_what_is_heard_of_a_copy_that_is_taken_up_is_what_it_still_copied(scene: Scene) -> None:
    entry = scene.east.put("a/one", [bytes(10 * CHUNK)])
    with pytest.raises(Killed):
        scene.west.copy_from(scene.east, "a/one", entry.generation, killing(3))
    heard: list[int] = []
    reborn(scene, "west").copy_from(scene.east, "a/one", entry.generation, heard.append)
    assert sum(heard) <= 6 * CHUNK


def test_a_token_that_leads_nowhere_begins_the_copy_anew(scene: Scene) -> None:
    data = bytes(5 * CHUNK)
    entry = scene.east.put("a/one", [data])
    with pytest.raises(Killed):
        scene.west.copy_from(scene.east, "a/one", entry.generation, killing(2))
    scene.fake.cloud._rewrites.clear()
    reborn(scene, "west").copy_from(scene.east, "a/one", entry.generation, unheard)
    assert scene.held("a/one", "west") == data


def test_a_copy_of_another_generation_is_never_taken_up(scene: Scene) -> None:
    entry = scene.east.put("a/one", [bytes(5 * CHUNK)])
    with pytest.raises(Killed):
        scene.west.copy_from(scene.east, "a/one", entry.generation, killing(2))
    newer = scene.east.put("a/one", [b"x" * 5 * CHUNK])
    reborn(scene, "west").copy_from(scene.east, "a/one", newer.generation, unheard)
    assert scene.held("a/one", "west") == b"x" * 5 * CHUNK
