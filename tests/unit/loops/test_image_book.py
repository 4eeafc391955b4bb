"""What each region calls an image follows from one name of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.loops.image_book import ImageBook, Shelf
from replicator.oci.prefix import parse_prefix

DIGEST = f"sha256:{'a' * 64}"
EUROPE, AMERICA = "europe-docker.pkg.dev/acme/train", "us-docker.pkg.dev/acme/train"


def shelf(prefix: str, region: str = "") -> Shelf:
    return Shelf(
        prefix=parse_prefix(prefix),
        region=region,
        pull_bytes_per_s=1e8,
        login="none",
        upload="whole",
    )


BOOK = ImageBook(
    [shelf(EUROPE, "europe"), shelf(AMERICA, "america"), shelf("docker.io"), shelf("r.example/a")],
    pulling=frozenset({"asia"}),
)


@pytest.mark.parametrize(
    ("image", "region", "name"),
    [
        (f"{EUROPE}/llm@{DIGEST}", "europe", f"{EUROPE}/llm@{DIGEST}"),
        (f"{EUROPE}/llm@{DIGEST}", "america", f"{AMERICA}/llm@{DIGEST}"),
        (f"{EUROPE}/llm/x@{DIGEST}", "america", f"{AMERICA}/llm/x@{DIGEST}"),
        (f"ubuntu@{DIGEST}", "america", f"{AMERICA}/library/ubuntu@{DIGEST}"),
        # A region without a registry of its own takes it from where it is.
        (f"{EUROPE}/llm@{DIGEST}", "asia", f"{EUROPE}/llm@{DIGEST}"),
        # What lies in no registry that is named here is left alone.
        (f"other.example/llm@{DIGEST}", "america", f"other.example/llm@{DIGEST}"),
        ("other.example/llm:v1", "america", "other.example/llm:v1"),
        ("no name at all", "america", "no name at all"),
        ("", "america", ""),
    ],
)
def test_a_region_has_an_image_under_its_own_prefix(image: str, region: str, name: str) -> None:
    assert BOOK.name_in(image, region) == name


def test_the_longest_prefix_of_several_is_meant() -> None:
    book = ImageBook(
        [shelf("r.example/a", "one"), shelf("r.example/a/b", "two")], pulling=frozenset()
    )
    assert book.name_in(f"r.example/a/b/llm@{DIGEST}", "one") == f"r.example/a/llm@{DIGEST}"
    assert book.name_in(f"r.example/a/b2/llm@{DIGEST}", "two") == f"r.example/a/b/b2/llm@{DIGEST}"


def test_images_are_pulled_where_a_registry_is_or_clusters_need_one() -> None:
    pulled = {r for r in ("europe", "america", "asia", "here") if BOOK.is_pulled_in(r)}
    assert pulled == {"europe", "america", "asia"}


_REGIONS = st.sampled_from(["europe", "america"])


@given(path=st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4}){0,2}", fullmatch=True), ways=st.lists(_REGIONS))
def test_law_a_name_is_of_one_region_however_it_was_come_by(path: str, ways: list[str]) -> None:
    name = start = f"{EUROPE}/{path}@{DIGEST}"
    for region in ways:
        name = BOOK.name_in(name, region)
    assert BOOK.name_in(name, "america") == BOOK.name_in(start, "america")
    assert name.endswith(f"/{path}@{DIGEST}")
