"""The manifest: its digest, and what is believed of one that was found."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from replicator.checkpoint.copy import copy
from replicator.checkpoint.describe import attest
from replicator.checkpoint.formats import REPLICA_NAME, Format
from replicator.checkpoint.manifest import (
    FileDigest,
    Manifest,
    Replica,
    decode_replica,
    encode_replica,
)
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.verify import Depth, Health, is_ready, read_replica, verify
from replicator.errors import Incomplete, NameRefused
from tests.fakes.checkpoints import PATH, save, unheard
from tests.fakes.object_store import MemoryObjectStore

REPLICA = Replica(
    path=PATH,
    manifest=Manifest(
        epoch=PATH.epoch,
        step=PATH.step,
        format=Format.FILES,
        files=(
            FileDigest(name=".complete", size_bytes=7, sha256="a" * 64, crc32c="AAAAAA=="),
            FileDigest(name="model", size_bytes=3, sha256="b" * 64, crc32c="4waSgw=="),
        ),
    ),
    generations={".complete": "1", "model": "2"},
    sources={".complete": "7", "model": "8"},
)


def test_a_replica_is_read_back_as_it_was_written() -> None:
    again = decode_replica(encode_replica(REPLICA), PATH)
    assert (again, again.sources) == (REPLICA, REPLICA.sources)


def test_a_manifest_of_before_it_had_a_crc32c_is_as_good_as_it_was() -> None:
    store = MemoryObjectStore()
    save(store, PATH, {"model": b"123456789"})
    replica = attest(store, PATH, Format.FILES, unheard)
    document = json.loads(encode_replica(replica))
    for file in document["files"]:
        del file["crc32c"]
    old = json.dumps(document).encode()
    store.put(PATH.prefix + REPLICA_NAME, [old])
    found = verify(store, PATH, Depth.DEEP, unheard)
    assert found.health is Health.SOUND
    assert found.replica is not None
    assert [file.crc32c for file in found.replica.manifest.files] == [None, None]
    assert is_ready(store, PATH, replica.manifest.digest)
    copied = copy(found.replica, store, MemoryObjectStore(), unheard)
    assert copied.manifest == found.replica.manifest


def test_a_manifest_says_the_crc32c_of_each_file() -> None:
    store = MemoryObjectStore()
    save(store, PATH, {"model": b"123456789"})
    files = attest(store, PATH, Format.FILES, unheard).manifest.data
    # The check value that the checksum's catalogues give for these nine digits, 0xE3069283.
    assert [(file.name, file.crc32c) for file in files] == [("model", "4waSgw==")]


def test_what_its_store_says_to_have_another_crc32c_is_not_ready() -> None:
    store = MemoryObjectStore()
    save(store, PATH, {"model": b"123456789"})
    replica = attest(store, PATH, Format.FILES, unheard)
    document = json.loads(encode_replica(replica))
    document["files"][1]["crc32c"] = "AAAAAA=="
    store.put(PATH.prefix + REPLICA_NAME, [json.dumps(document).encode()])
    found = verify(store, PATH, Depth.QUICK, unheard)
    assert (found.health, found.faults) == (
        Health.FAULTY,
        ("model has another crc32c than the manifest says",),
    )
    assert not is_ready(store, PATH, replica.manifest.digest)


def test_a_copy_says_of_which_generations_it_is() -> None:
    store, other = MemoryObjectStore(), MemoryObjectStore()
    save(store, PATH, {"model": b"first"})
    save(store, PATH, {"model": b"123"})
    origin = attest(store, PATH, Format.FILES, unheard)
    copy(origin, store, other, unheard)
    copied = read_replica(other, PATH)
    assert copied is not None
    assert (origin.sources, copied.sources) == ({}, origin.generations)
    assert copied.generations != origin.generations


def test_the_digest_is_fixed_for_ever() -> None:
    # Seals in old logs name digests: another way to compute them would orphan every checkpoint.
    assert REPLICA.manifest.digest == (
        "085a6903efef0adfc6541c606e4877d5feed1734dae9daf2c1d5feed11a421ec"
    )


def test_the_size_is_that_of_all_files() -> None:
    assert REPLICA.manifest.size_bytes == 10


def set_to(*keys: str | int, value: object) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


def repeat_a_file(document: Any) -> None:
    document["files"].append(document["files"][1])


@pytest.mark.parametrize(
    "change",
    [
        set_to("schema_version", value=2),
        set_to("digest", value="c" * 64),
        set_to("epoch", value="e000002-abc"),
        set_to("step", value=21),
        set_to("format", value="LIGHTNING"),
        set_to("files", value=[]),
        set_to("files", value=None),
        set_to("files", 1, "name", value="../../e000009-x/checkpoints/step-1/model"),
        set_to("files", 1, "name", value="_REPLICA.json"),
        set_to("files", 1, "sha256", value="d" * 64),
        set_to("files", 1, "size_bytes", value=-3),
        set_to("files", 1, "generation", value=None),
        set_to("files", 1, "source_generation", value=3),
        set_to("files", 1, "crc32c", value=3808858755),
        set_to("files", 1, "crc32c", value="AAAAAAA="),
        set_to("files", 1, "crc32c", value="AAAAAB=="),
        repeat_a_file,
    ],
)
def test_an_altered_or_hostile_manifest_is_not_believed(change: Callable[[Any], None]) -> None:
    document = json.loads(encode_replica(REPLICA))
    change(document)
    with pytest.raises(Incomplete):
        decode_replica(json.dumps(document).encode(), PATH)


@pytest.mark.parametrize("encoded", [b"", b"null", b"{", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_no_json_is_not_believed(encoded: bytes) -> None:
    with pytest.raises(Incomplete):
        decode_replica(encoded, PATH)


def test_a_manifest_moved_to_another_place_makes_nothing_ready() -> None:
    store = MemoryObjectStore()
    save(store, PATH, {"model": b"123"})
    replica = attest(store, PATH, Format.FILES, unheard)
    other = CheckpointPath(run_key=PATH.run_key, epoch=PATH.epoch, step=30)
    save(store, other, {"model": b"123"})
    store.put(other.prefix + REPLICA_NAME, [encode_replica(replica)])
    assert not is_ready(store, other, replica.manifest.digest)
    assert verify(store, other, Depth.QUICK, unheard).health is Health.UNREADABLE


def test_a_path_is_read_back() -> None:
    assert str(PATH) == "runs/r1/e000001-abc/checkpoints/step-20/"
    assert CheckpointPath.parse(str(PATH)) == PATH
    assert CheckpointPath.parse(str(PATH).rstrip("/")) == PATH


@pytest.mark.parametrize(
    "text",
    [
        "",
        "runs/r1/e1/checkpoints/step-020/",
        "runs/r1/e1/checkpoints/step--1",
        "runs/r1/e1/checkpoints/step-1/x",
        "runs/../e1/checkpoints/step-1",
        "runs//e1/checkpoints/step-1",
        "other/r1/e1/checkpoints/step-1",
        "runs/r1/e1/checkpoints/step-\u0661",
        "runs/r1/e1/checkpoints/step-1\n",
    ],
)
def test_what_is_no_path_of_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NameRefused):
        CheckpointPath.parse(text)
