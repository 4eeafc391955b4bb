"""The laws of copying and removing: what a reader can find is whole, whatever interrupts."""

import hashlib
from collections.abc import Callable, Generator
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from replicator.checkpoint.copy import copy
from replicator.checkpoint.describe import attest, describe
from replicator.checkpoint.formats import MARKERS, REPLICA_NAME, Format
from replicator.checkpoint.manifest import Replica
from replicator.checkpoint.removal import remove
from replicator.checkpoint.scan import Stage, scan
from replicator.checkpoint.verify import Depth, Health, is_ready, verify
from replicator.errors import ReplicatorError, StoreUnreachable
from replicator.stores import ContentReader, ContentStore, Entry, Listing
from tests.fakes.checkpoints import PATH, save, unheard
from tests.fakes.object_store import Interrupted, Killed, MemoryObjectStore

# Any number: `during` folds it into the length of what is interrupted.
POINTS = st.integers(0, 10_000)
# Of Hugging Face some file is the weights, by its name.
FORMATS = st.sampled_from([one for one in Format if one is not Format.HUGGING_FACE])
FILES = st.dictionaries(
    st.sampled_from(["rank-0.bin", "rank-1.bin", "deep/er/state", "Z", "__0_0.distcp"]),
    st.binary(max_size=12),
    min_size=1,
    max_size=4,
)


def origin(files: dict[str, bytes], form: Format) -> tuple[MemoryObjectStore, Replica]:
    store = MemoryObjectStore()
    save(store, PATH, files, form)
    return store, attest(store, PATH, form, unheard)


def contents(store: MemoryObjectStore) -> dict[str, bytes]:
    return {
        entry.name: b"".join(store.read(entry.name, entry.generation))
        for entry in store.list("runs/").entries
        if not entry.name.endswith(REPLICA_NAME)
    }


def at(wanted_point: int, act: Callable[[], None]) -> Callable[[int], None]:
    return lambda point: act() if point == wanted_point else None


def during(
    drawn: int, rehearsed_on: MemoryObjectStore, work: Callable[[ContentStore], object]
) -> int:
    """Turn any number into a point of `work`, which is rehearsed: all of its length is reached."""
    rehearsal = Interrupted(rehearsed_on, lambda point: None)
    work(rehearsal)
    return drawn % rehearsal.points


def die() -> None:
    raise Killed


class NotesReads:
    """A source that remembers which objects were read from it."""

    def __init__(self, inner: ContentReader) -> None:
        self._inner = inner
        self.names: list[str] = []

    def list(self, prefix: str) -> Listing:
        return self._inner.list(prefix)

    def stat(self, name: str) -> Entry | None:
        return self._inner.stat(name)

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        self.names.append(name)
        return self._inner.read(name, generation)


def is_whole(store: MemoryObjectStore, replica: Replica) -> bool:
    """Judge as a suspicious outsider: every file read, every checksum compared."""
    found = verify(store, PATH, Depth.DEEP, unheard)
    return (
        found.health is Health.SOUND
        and found.replica is not None
        and (found.replica.manifest == replica.manifest)
    )


@given(files=FILES, form=FORMATS, kills=st.lists(POINTS, max_size=4))
def test_a_copy_killed_at_any_point_and_run_again_converges(
    files: dict[str, bytes], form: Format, kills: list[int]
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()

    def never_ready_before_whole(_: int) -> None:
        if is_ready(destination, PATH, replica.manifest.digest):
            assert is_whole(destination, replica)

    for drawn in kills:
        point = during(drawn, MemoryObjectStore(), lambda to: copy(replica, source, to, unheard))
        watched = Interrupted(destination, never_ready_before_whole)
        dying = Interrupted(watched, at(point, die))
        with suppress(Killed):
            copy(replica, source, dying, unheard)
    copied = copy(replica, source, destination, unheard)
    assert copied.manifest.digest == replica.manifest.digest
    assert is_ready(destination, PATH, replica.manifest.digest)
    assert contents(destination) == contents(source)


@given(files=FILES, form=FORMATS, kill_point=POINTS)
def test_a_marker_at_the_destination_stands_over_whole_data_at_every_point(
    files: dict[str, bytes], form: Format, kill_point: int
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()
    point = during(kill_point, MemoryObjectStore(), lambda to: copy(replica, source, to, unheard))
    with suppress(Killed):
        copy(replica, source, Interrupted(destination, at(point, die)), unheard)
    there = contents(destination)
    if PATH.prefix + MARKERS[form] in there:
        assert there == contents(source)


@given(files=FILES, form=FORMATS, kill_point=POINTS)
def test_what_was_copied_before_a_kill_is_not_read_from_the_source_again(
    files: dict[str, bytes], form: Format, kill_point: int
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()
    point = during(kill_point, MemoryObjectStore(), lambda to: copy(replica, source, to, unheard))
    with suppress(Killed):
        copy(replica, source, Interrupted(destination, at(point, die)), unheard)
    already = set(contents(destination))
    noting = NotesReads(source)
    copy(replica, noting, destination, unheard)
    assert already.isdisjoint(noting.names)


@given(
    files=FILES,
    form=FORMATS,
    mutation_point=POINTS,
    victim=st.integers(0, 5),
    data=st.binary(max_size=12),
    rewrites_marker=st.booleans(),
)
def test_a_source_that_changes_never_yields_a_ready_replica_of_something_else(
    *,
    files: dict[str, bytes],
    form: Format,
    mutation_point: int,
    victim: int,
    data: bytes,
    rewrites_marker: bool,
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()
    name = sorted(files)[victim % len(files)]
    was_early = False

    def mutate() -> None:
        nonlocal was_early
        was_early = destination.stat(PATH.prefix + MARKERS[form]) is None
        if rewrites_marker:
            save(source, PATH, {**files, name: data}, form)
        else:
            source.put(PATH.prefix + name, [data])

    point = during(
        mutation_point, source, lambda frm: copy(replica, frm, MemoryObjectStore(), unheard)
    )
    watched = Interrupted(source, at(point, mutate))
    with suppress(ReplicatorError):
        copy(replica, watched, destination, unheard)
    is_there = is_ready(destination, PATH, replica.manifest.digest)
    # After the marker comes the last look at the source, and then a moment that two stores cannot
    # close: what is there then is what was described, and that is what counts.
    assert not (was_early and is_there)
    assert not is_there or is_whole(destination, replica)


@given(
    files=FILES,
    form=FORMATS,
    mutation_point=POINTS,
    data=st.binary(max_size=12),
    is_new=st.booleans(),
)
def test_a_checkpoint_that_changes_while_it_is_described_is_not_attested(
    files: dict[str, bytes], form: Format, mutation_point: int, data: bytes, is_new: bool
) -> None:
    store, rehearsed_on = MemoryObjectStore(), MemoryObjectStore()
    for each in (store, rehearsed_on):
        save(each, PATH, files, form)
    name = "__9_9.distcp" if is_new else sorted(files)[0]
    total_bytes = sum(entry.size_bytes for entry in store.list(PATH.prefix).entries)
    heard: list[int] = []
    was_early = False

    def mutate() -> None:
        nonlocal was_early
        was_early = sum(heard) < total_bytes
        store.put(PATH.prefix + name, [data])

    point = during(mutation_point, rehearsed_on, lambda it: describe(it, PATH, form, unheard))
    try:
        replica = describe(Interrupted(store, at(point, mutate)), PATH, form, heard.append)
    except ReplicatorError:
        return
    described = {file.name: file for file in replica.manifest.files}
    is_content = form is Format.PYTORCH_DCP or name in files
    if was_early and is_content:
        # It came before the first look, so it is in the manifest as it is now.
        assert described[name].sha256 == hashlib.sha256(data).hexdigest()


@given(files=FILES, form=FORMATS, faults=st.sets(POINTS, max_size=6))
def test_a_destination_that_fails_now_and_then_is_filled_in_the_end(
    files: dict[str, bytes], form: Format, faults: set[int]
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()

    planned = {
        during(drawn, MemoryObjectStore(), lambda to: copy(replica, source, to, unheard))
        for drawn in faults
    }

    def fault(point: int) -> None:
        if point in planned:
            raise StoreUnreachable("destination", "as planned")

    flaky = Interrupted(destination, fault)
    for _ in range(len(faults) + 1):
        with suppress(StoreUnreachable):
            copy(replica, source, flaky, unheard)
    assert is_ready(destination, PATH, replica.manifest.digest)


@given(
    files=FILES,
    form=FORMATS,
    victim=st.integers(0, 5),
    data=st.binary(max_size=12),
    is_gone=st.booleans(),
)
def test_a_damaged_replica_is_not_ready_and_a_copy_repairs_it(
    files: dict[str, bytes], form: Format, victim: int, data: bytes, is_gone: bool
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()
    copy(replica, source, destination, unheard)
    name = PATH.prefix + sorted([*files, MARKERS[form]])[victim % (len(files) + 1)]
    if is_gone:
        destination.delete(name)
    else:
        destination.put(name, [data])
    assert not is_ready(destination, PATH, replica.manifest.digest)
    copy(replica, source, destination, unheard)
    assert is_ready(destination, PATH, replica.manifest.digest)
    assert contents(destination) == contents(source)


@given(files=FILES, form=FORMATS, kill_point=POINTS)
def test_while_a_damaged_replica_is_repaired_nothing_vouches_for_the_half_of_it(
    files: dict[str, bytes], form: Format, kill_point: int
) -> None:
    source, replica = origin(files, form)
    destination = MemoryObjectStore()
    copy(replica, source, destination, unheard)
    data = {PATH.prefix + name for name in files}
    vouchers = {PATH.prefix + name for name in (REPLICA_NAME, MARKERS[form])}
    rehearsed_on = MemoryObjectStore()
    copy(replica, source, rehearsed_on, unheard)
    for name in data:
        destination.delete(name)
        rehearsed_on.delete(name)
    last_point = during(kill_point, rehearsed_on, lambda to: copy(replica, source, to, unheard))

    def no_voucher_over_a_half(point: int) -> None:
        there = {entry.name for entry in destination.list(PATH.prefix).entries}
        assert not there & data or there >= data or there.isdisjoint(vouchers)
        if point == last_point:
            raise Killed

    with suppress(Killed):
        copy(replica, source, Interrupted(destination, no_voucher_over_a_half), unheard)
    copy(replica, source, destination, unheard)
    assert is_ready(destination, PATH, replica.manifest.digest)


@given(files=FILES, form=FORMATS, kill_point=POINTS)
def test_a_removal_cut_off_anywhere_is_never_taken_for_a_checkpoint(
    files: dict[str, bytes], form: Format, kill_point: int
) -> None:
    store, replica = origin(files, form)
    before = contents(store)
    point = during(kill_point, origin(files, form)[0], lambda of: remove(of, PATH))
    with suppress(Killed):
        remove(Interrupted(store, at(point, die)), PATH)
    there = contents(store)
    is_vouched_for = store.stat(PATH.prefix + REPLICA_NAME) is not None
    assert not is_vouched_for or there == before
    assert is_vouched_for == is_ready(store, PATH, replica.manifest.digest)
    found = scan(store, PATH.run_key, PATH.epoch, form).checkpoints
    if there != before:
        assert [one.stage for one in found] in ([], [Stage.PARTIAL])
    remove(store, PATH)
    assert store.list("runs/").entries == ()


@given(files=FILES, form=FORMATS)
def test_a_checkpoint_has_the_same_digest_in_every_region(
    files: dict[str, bytes], form: Format
) -> None:
    first, replica = origin(files, form)
    second, third = MemoryObjectStore(), MemoryObjectStore()
    second.put("elsewhere", [b"so that generations differ"])
    in_second = copy(replica, first, second, unheard)
    in_third = copy(in_second, second, third, unheard)
    assert in_second.generations != replica.generations
    assert in_third.manifest == in_second.manifest == replica.manifest
    assert in_third.manifest.digest == replica.manifest.digest
