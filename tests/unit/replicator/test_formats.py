"""When a directory counts as a checkpoint."""

import json

import pytest

from replicator.checkpoint.formats import Complete, Format, Unfinished, judge
from replicator.stores import Entry
from tests.fakes.checkpoints import marker_of


def entries(sizes: dict[str, int]) -> dict[str, Entry]:
    return {
        name: Entry(name=name, size_bytes=size, generation="1", modified_s=0.0)
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
