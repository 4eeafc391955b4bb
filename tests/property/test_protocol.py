"""Laws of the start protocol's records and rules, over whatever values there can be."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regions import gatehouse
from regions.launcher import codec, freshness, layout, restore, rules
from regions.launcher.codec import Unreadable
from regions.launcher.freshness import GateWatch
from regions.launcher.reading import Absent, Reading, Unreachable
from regions.launcher.restore import Adopted, Revocations, StoreSeen
from regions.launcher.rules import Evidence, Owner, Wish
from regions.launcher.store import DirectoryStore

nonces = st.text("0123456789abcdef", min_size=8, max_size=64)
texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=50)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,40}", fullmatch=True)
wholes = st.integers(0, 2**53 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
epochs = st.builds(layout.EpochId, number=st.integers(1, 10**9 - 1), nonce=nonces)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
paths = st.builds(
    lambda run, epoch, step: layout.RunKeys(run).checkpoint(epoch, step),
    names,
    epochs,
    st.integers(0, 10**14),
)
seals = st.builds(
    layout.Seal, epoch=epochs, steps=st.lists(st.tuples(wholes, digests), max_size=4).map(tuple)
)
RECORDS = {
    "gate": (
        codec.write_gate,
        codec.read_gate,
        st.builds(
            layout.Gate,
            rank=st.integers(0, 4095),
            nonce=nonces,
            count=wholes,
            member=texts,
        ),
    ),
    "grant": (
        codec.write_grant,
        codec.read_grant,
        st.builds(
            layout.Grant,
            placement=names,
            epoch=epochs,
            world_size=st.integers(1, 4096),
            incarnation=wholes,
            resume_from=st.none() | paths,
            bundle=st.none() | digests,
            seals=st.lists(seals, max_size=3).map(tuple),
        ),
    ),
    "owner": (
        codec.write_owner,
        codec.read_owner,
        st.builds(layout.Revoked, by=texts)
        | st.builds(
            layout.Started,
            grant_nonce=nonces,
            placement=names,
            nonces=st.lists(nonces, min_size=1, max_size=5, unique=True).map(tuple),
        ),
    ),
    "drain": (
        codec.write_drain,
        codec.read_drain,
        st.builds(
            layout.DrainOrder,
            reason=texts,
            grace_s=numbers,
            deadline_unix_s=st.none() | numbers,
        ),
    ),
    "fence": (
        codec.write_fence,
        codec.read_fence,
        st.builds(layout.Fence, reason=texts),
    ),
    "report": (
        codec.write_report,
        codec.read_report,
        st.builds(
            layout.Report,
            rank=st.integers(0, 4095),
            nonce=nonces,
            beat=wholes,
            phase=st.sampled_from(layout.PHASES),
            step=st.none() | wholes,
            loss=st.none() | numbers,
            samples=st.none() | wholes,
            is_drained=st.booleans(),
            drained_step=st.none() | wholes,
            trouble=texts,
        ),
    ),
    "end": (
        codec.write_end,
        codec.read_end,
        st.builds(
            layout.End,
            rank=st.integers(0, 4095),
            nonce=nonces,
            kind=st.sampled_from(layout.END_KINDS),
            cause=texts,
            exit_code=st.none() | wholes,
            signal=st.none() | wholes,
            was_asked=st.booleans(),
            at_unix_s=numbers,
        ),
    ),
}
READERS = [read for _, read, _ in RECORDS.values()]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("name", sorted(RECORDS))
@given(data=st.data())
def test_a_record_is_read_as_it_was_written_and_by_no_other_reader(
    name: str, data: st.DataObject
) -> None:
    write, read, values = RECORDS[name]
    value = data.draw(values)
    raw = write(value)  # type: ignore[operator]
    assert read(raw) == value
    others = [other(raw) for other in READERS if other is not read]
    assert all(isinstance(found, Unreadable) for found in others)


@pytest.mark.parametrize("name", sorted(RECORDS))
@given(data=st.data())
def test_a_record_that_is_half_written_or_hostile_is_unreadable(
    name: str, data: st.DataObject
) -> None:
    write, read, values = RECORDS[name]
    raw = write(data.draw(values))  # type: ignore[operator]
    cut = data.draw(st.integers(0, len(raw) - 1))
    assert isinstance(read(raw[:cut]), Unreadable)
    fields = json.loads(raw)
    field = data.draw(st.sampled_from(sorted(fields)))
    del fields[field]
    assert isinstance(read(json.dumps(fields).encode()), Unreadable)
    fields[data.draw(st.text(max_size=5)) + "?"] = 1
    assert isinstance(read(json.dumps(fields).encode()), Unreadable)


@given(raw=st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_a_reader_raise(raw: bytes) -> None:
    assert all(isinstance(read(raw), Unreadable) for read in READERS)


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b'{"a":' * 100_000, b"{" + b" " * (1 << 20) + b"}", b'{"a":1,"a":2}',
     b'{"rank": ' + b"9" * 10_000 + b"}"],
)  # fmt: skip
def test_depth_and_size_make_no_reader_raise(raw: bytes) -> None:
    assert all(isinstance(read(raw), Unreadable) for read in READERS)


@given(text=st.text(st.characters(exclude_categories=())))
def test_what_cannot_be_told_is_neither_written_nor_believed(text: str) -> None:
    end = layout.End(
        rank=0,
        nonce="a" * 8,
        kind=layout.EXITED,
        cause=text,
        exit_code=0,
        signal=None,
        was_asked=False,
        at_unix_s=0,
    )
    said = codec.read_end(codec.write_end(end))
    assert isinstance(said, layout.End)
    assert "\x1b" not in said.cause.encode().decode()
    raw = json.loads(codec.write_end(end))
    raw["cause"] = text
    forged = codec.read_end(json.dumps(raw).encode())
    assert isinstance(forged, Unreadable) == (said.cause != text)


strangers = names.filter(lambda name: name not in ("p", "placements"))
small_nonces = st.sampled_from([f"{n:08x}" for n in range(4)])
started = st.builds(
    layout.Started,
    grant_nonce=st.sampled_from(["a" * 8, "b" * 8]),
    placement=st.just("p"),
    nonces=st.lists(small_nonces, min_size=1, max_size=3, unique=True).map(tuple),
)
missing = st.sampled_from([Absent(), Unreadable("x"), Unreachable("y")])
evidences = st.builds(
    Evidence,
    epoch=st.just(layout.EpochId(number=1, nonce="a" * 8)),
    owner=missing | started | st.just(layout.Revoked(by="x")),
    fence=missing | st.just(layout.Fence(reason="x")),
    ended=st.frozensets(small_nonces),
    gone=st.frozensets(small_nonces),
    is_region_silent=st.booleans(),
    go_on_by=st.none() | st.just("ops"),
)


@given(evidence=evidences, wish=st.sampled_from(Wish), more=st.frozensets(small_nonces))
def test_what_closes_an_epoch_closes_it_for_ever(
    evidence: Evidence, wish: Wish, more: frozenset[str]
) -> None:
    verdict = rules.judge(evidence, wish)
    later = replace(evidence, ended=evidence.ended | more)
    if isinstance(verdict, rules.Closed):
        assert isinstance(rules.judge(later, wish), rules.Closed)


@given(evidence=evidences, wish=st.sampled_from(Wish))
def test_without_somebodys_word_an_epoch_closes_on_proof_alone(
    evidence: Evidence, wish: Wish
) -> None:
    verdict = rules.judge(replace(evidence, go_on_by=None), wish)
    if not isinstance(verdict, rules.Closed):
        return
    owner = evidence.owner
    assert isinstance(owner, layout.Started | layout.Revoked)
    assert not verdict.is_owed
    if isinstance(owner, layout.Started) and owner.grant_nonce == evidence.epoch.nonce:
        assert set(owner.nonces) <= evidence.ended | evidence.gone


@given(
    looks=st.lists(
        st.lists(
            st.builds(
                layout.Gate,
                rank=st.integers(0, 2),
                nonce=small_nonces,
                count=st.integers(0, 2),
            ),
            max_size=4,
            unique_by=lambda gate: gate.nonce,
        ),
        max_size=5,
    )
)
def test_a_whole_gang_has_one_process_per_rank_each_seen_to_move(
    looks: list[list[layout.Gate]],
) -> None:
    watch = GateWatch()
    for number, gates in enumerate(looks):
        watch = freshness.watch_gates(watch, gates, float(number))
    now_s = float(len(looks))
    gang = freshness.whole_gang(watch, world_size=2, now_s=now_s, fresh_s=1.0)
    if gang is None:
        return
    before = {gate.nonce: gate for gate in looks[-2]}
    last = {gate.nonce: gate for gate in looks[-1]}
    assert len(set(gang)) == 2
    for rank, nonce in enumerate(gang):
        assert last[nonce].rank == rank
        assert last[nonce].count != before[nonce].count


@given(
    last_number=st.integers(0, 5),
    margin=st.integers(1, 4),
    data=st.data(),
)
def test_a_restored_broker_joins_its_log_in_two_answers_and_starts_above_every_trace(
    last_number: int, margin: int, data: st.DataObject
) -> None:
    owner_maps = st.dictionaries(st.integers(1, 9), started | st.just(layout.Revoked(by="x")))
    stores = tuple(
        StoreSeen(region=region, owners=data.draw(owner_maps), grants=()) for region in "AB"
    )
    top = restore.top_number(last_number, stores, margin)
    answer = restore.adopt(last_number, top, (), stores, frozenset(), settled=frozenset())
    assert isinstance(answer, Revocations)
    assert all(last_number < number <= top for _, number in answer.targets)
    owners: dict[str, dict[int, Reading[Owner]]] = {s.region: dict(s.owners) for s in stores}
    for region, number in answer.targets:
        assert number not in owners[region]
        owners[region][number] = layout.Revoked(by="restore")
    after = tuple(replace(store, owners=owners[store.region]) for store in stores)
    joined = restore.adopt(last_number, top, (), after, frozenset(), settled=frozenset())
    assert isinstance(joined, Adopted)
    assert joined.next_number == top + 1
    found = {
        (store.region, number)
        for store in stores
        for number, owner in store.owners.items()
        if isinstance(owner, layout.Started) and number > last_number
    }
    assert {(one.region, one.epoch.number) for one in joined.open} == found
    # Whatever a disk has made of the owners that the log knows, it comes to the same.
    known = frozenset(range(1, last_number + 1))
    damaged = tuple(
        replace(
            store,
            owners={n: Unreadable("?") if n in known else o for n, o in store.owners.items()},
        )
        for store in after
    )
    again = restore.adopt(last_number, top, (), damaged, frozenset(), settled=known)
    assert again == joined


@settings(max_examples=20)  # each one is some forty files
@given(garbage=st.dictionaries(strangers, st.binary(max_size=30), max_size=6))
def test_a_store_full_of_strangers_is_read_without_a_guess(
    garbage: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = DirectoryStore.create(str(tmp_path_factory.mktemp("store")))
    for name, data in garbage.items():
        for prefix in ("", "placements/p/gate/", "placements/", "e000001-aaaaaaaa/report/"):
            store.put(f"runs/r/{prefix}{name}", data)
        store.put(f"runs/r/e000001-aaaaaaaa/checkpoints/{name}/.complete", data)
    seen = gatehouse.read_run(store, "r", None, gatehouse.Closed(), time.monotonic())
    for epoch in seen.epochs.values():
        assert (epoch.owner, dict(epoch.reports), dict(epoch.ends)) == (Absent(), {}, {})
    for placement in seen.placements.values():
        assert (placement.watch, placement.grant) == (GateWatch(), Absent())
    assert Path(store.root).is_dir()
