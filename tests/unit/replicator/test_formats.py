"""When a directory counts as a checkpoint."""

import json

import pytest

from replicator.checkpoint.describe import describe
from replicator.checkpoint.formats import Complete, Format, Unfinished, is_whole_zip, judge
from replicator.errors import Incomplete
from replicator.stores import Entry
from tests.fakes.checkpoints import PATH, THEIRS, marker_of, unheard
from tests.fakes.object_store import MemoryObjectStore


def entries(sizes: dict[str, int]) -> dict[str, Entry]:
    return {
        name: Entry(name=name, size_bytes=size, generation="1", modified_s=0.0, crc32c=None)
        for name, size in sizes.items()
    }


FILES = {"a": b"12", "deep/b": b"345"}
LYING = entries({"a": 2, "deep/b": 3, ".complete": 9})


def test_a_marker_names_the_content_and_nothing_else_is() -> None:
    found = LYING | entries({"a.swp": 1, ".tmp-a-7": 1, "_REPLICA.json": 1})
    judged = judge(Format.FILES, found, marker_of(FILES))
    assert isinstance(judged, Complete)
    assert list(judged.content) == [".complete", "a", "deep/b"]


def test_dcp_content_is_all_but_temporary_files_and_manifests() -> None:
    sizes = {"__0_0.distcp": 5, "__1_0.distcp": 6, ".metadata": 3, "x.tmp": 1, "_REPLICA.json": 1}
    judged = judge(Format.PYTORCH_DCP, entries(sizes), b"pickle")
    assert isinstance(judged, Complete)
    assert list(judged.content) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    assert judged.claims == {}


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("marker", [None, b""])
def test_without_a_marker_or_with_an_empty_one_nothing_is_complete(
    form: Format, marker: bytes | None
) -> None:
    assert isinstance(judge(form, LYING | entries({".metadata": 0}), marker), Unfinished)


def test_a_dcp_save_that_began_again_is_unfinished() -> None:
    found = entries({"__0_0.distcp": 5, ".metadata": 3, ".metadata.tmp": 3})
    judged = judge(Format.PYTORCH_DCP, found, b"pickle")
    assert judged == Unfinished(why=".metadata.tmp is there: a save is going on or was cut off")


def test_the_marker_of_another_format_does_not_count() -> None:
    assert isinstance(judge(Format.PYTORCH_DCP, LYING, None), Unfinished)


def test_a_file_that_the_marker_names_must_be_there_in_its_size() -> None:
    missing = {name: entry for name, entry in LYING.items() if name != "a"}
    assert judge(Format.FILES, missing, marker_of(FILES)) == Unfinished(
        why="a, which its marker names, is not there"
    )
    short = LYING | entries({"a": 1})
    assert judge(Format.FILES, short, marker_of(FILES)) == Unfinished(
        why="a has not the size that its marker says"
    )


def entry(**changes: object) -> dict[str, object]:
    return {"name": "a", "size_bytes": 2, "sha256": "0" * 64, **changes}


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"files": None},
        {"files": []},
        {"files": ["a"]},
        {"files": [entry(), entry()]},
        {"files": [entry(name="../a")]},
        {"files": [entry(name="/etc/passwd")]},
        {"files": [entry(name=7)]},
        {"files": [entry(name=["a"])]},
        {"files": [entry(name="_REPLICA.json")]},
        {"files": [entry(name=".complete")]},
        {"files": [entry(size_bytes=-1)]},
        {"files": [entry(size_bytes=True)]},
        {"files": [entry(size_bytes=2.0)]},
        {"files": [entry(sha256="0" * 63)]},
        {"files": [entry(sha256="G" * 64)]},
        {"files": [entry(sha256=None)]},
    ],
)
def test_a_hostile_marker_makes_no_checkpoint(document: object) -> None:
    assert isinstance(judge(Format.FILES, LYING, json.dumps(document).encode()), Unfinished)


@pytest.mark.parametrize("marker", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"files": ['])
def test_a_marker_that_is_cut_off_makes_no_checkpoint(marker: bytes) -> None:
    assert isinstance(judge(Format.FILES, LYING, marker), Unfinished)


def why_not(form: Format, names: str, marker: bytes = b"{}") -> str:
    """Why files of one byte each, by names that spaces part, are no checkpoint, or nothing."""
    judged = judge(form, entries(dict.fromkeys(names.split(), 1)), marker)
    return judged.why if isinstance(judged, Unfinished) else ""


SAVED = "trainer_state.json optimizer.pt"


@pytest.mark.parametrize(
    "weights",
    [
        "model.safetensors",
        "pytorch_model.bin",
        "adapter_model.safetensors",
        "model-00001-of-00002.safetensors model-00002-of-00002.safetensors",
        "global_step20/zero_pp_rank_0_mp_rank_00_model_states.pt",
        "pytorch_model_fsdp_0/__0_0.distcp",
    ],
)
def test_what_a_trainer_of_hugging_face_saved_is_complete(weights: str) -> None:
    assert why_not(Format.HUGGING_FACE, f"{SAVED} {weights}") == ""


@pytest.mark.parametrize(
    ("names", "marker", "why"),
    [
        (SAVED, b"{}", "it has no weights"),
        (
            f"{SAVED} model-00001-of-00003.safetensors model-00003-of-00003.safetensors",
            b"{}",
            "model-00002-of-00003.safetensors is not there",
        ),
        (f"{SAVED} model.safetensors", b'{"log_hist', "its trainer_state.json is not whole"),
        ("model.safetensors optimizer.pt", b"{}", "its marker trainer_state.json is not there"),
    ],
)
def test_what_a_trainer_of_hugging_face_still_writes_is_not(
    names: str, marker: bytes, why: str
) -> None:
    assert why_not(Format.HUGGING_FACE, names, marker) == why


def test_orbax_is_complete_without_temporary_names() -> None:
    saved = "_CHECKPOINT_METADATA state/manifest.ocdbt"
    assert why_not(Format.ORBAX, saved) == ""
    assert why_not(Format.ORBAX, "_CHECKPOINT_METADATA") == "it has nothing but its metadata"
    assert why_not(Format.ORBAX, f"{saved} state.orbax-checkpoint-tmp-7/d/0") == (
        "a part of it still has its temporary name"
    )
    assert why_not(Format.ORBAX, saved, b"") == "its marker _CHECKPOINT_METADATA is not there"


def test_what_others_call_their_markers_is_a_file_as_any() -> None:
    files = {"trainer_state.json": b"{}", "model.safetensors": b"123"}
    sizes = {name: len(data) for name, data in files.items()}
    judged = judge(Format.FILES, entries({**sizes, ".complete": 9}), marker_of(files))
    assert isinstance(judged, Complete)


@pytest.mark.parametrize("comment", [b"", b"of somebody's", b"PK"])
def test_a_zip_is_whole_when_its_end_is_there(comment: bytes) -> None:
    end = b"tensors" + b"PK\x05\x06" + bytes(16) + len(comment).to_bytes(2, "little") + comment
    assert is_whole_zip(end)
    for cut in range(1, len(end)):
        assert not is_whole_zip(end[:-cut])
    assert not is_whole_zip(end + b"?")


def test_a_lightning_checkpoint_that_ends_too_early_is_incomplete() -> None:
    store, written = MemoryObjectStore(), THEIRS[Format.LIGHTNING]
    for end in range(len(written) - 30, len(written)):
        store.put(PATH.prefix + "checkpoint.ckpt", [written[:end]])
        with pytest.raises(Incomplete, match="does not end as the zip file"):
            describe(store, PATH, Format.LIGHTNING, unheard)
    store.put(PATH.prefix + "checkpoint.ckpt", [written])
    replica = describe(store, PATH, Format.LIGHTNING, unheard)
    assert [file.name for file in replica.manifest.files] == ["checkpoint.ckpt"]
