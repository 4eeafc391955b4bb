"""A region's registry holds what its prefix names, and a name moves between prefixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import NameRefused
from replicator.oci.prefix import Prefix, parse_prefix
from replicator.oci.reference import repository_name

EUROPE = "europe-west4-docker.pkg.dev/acme/train"


@pytest.mark.parametrize(
    ("prefix", "name", "rest"),
    [
        (EUROPE, f"{EUROPE}/llm", "llm"),
        (EUROPE, f"{EUROPE}/llm/large", "llm/large"),
        (EUROPE, EUROPE, None),
        (EUROPE, f"{EUROPE}-two/llm", None),
        (EUROPE, "us-docker.pkg.dev/acme/train/llm", None),
        ("docker.io", "ubuntu", "library/ubuntu"),
        ("127.0.0.1:5000", "127.0.0.1:5000/llm", "llm"),
        ("127.0.0.1:5000", "127.0.0.1:5001/llm", None),
    ],
)
def test_what_follows_a_prefix_is_whole_parts_of_a_path(
    prefix: str, name: str, rest: str | None
) -> None:
    assert parse_prefix(prefix).rest_of(repository_name(name)) == rest


@pytest.mark.parametrize(
    "text",
    ["", "Registry.example", "registry.example/", "a b", "registry/x:v1", "https://r.x", "x"],
)
def test_what_nothing_could_be_under_is_refused(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_prefix(text)


_PARTS = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), min_size=1, max_size=4)


@given(path=_PARTS, rest=_PARTS)
def test_law_a_name_that_moves_there_and_back_is_the_same(path: list[str], rest: list[str]) -> None:
    here = Prefix(registry="here.example", path="/".join(path))
    there = Prefix(registry="there.example", path="")
    name = repository_name(f"here.example/{here.repository('/'.join(rest))}")
    moved = repository_name(f"there.example/{there.repository(here.rest_of(name) or '')}")
    assert here.repository(there.rest_of(moved) or "") == name.path
