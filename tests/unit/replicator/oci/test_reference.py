"""Names of images, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import NameRefused
from replicator.oci.reference import Reference, RepositoryName, parse, repository_name

DIGEST = "sha256:" + "0a" * 32

SEGMENTS = st.from_regex(r"[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}", fullmatch=True)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
REGISTRIES = st.sampled_from(
    ["docker.io", "localhost", "localhost:5000", "127.0.0.1:1", "[::1]:5000", "a-b.example.org"]
)
TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("team/train", "docker.io/team/train:latest"),
        ("index.docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("localhost/train", "localhost/train:latest"),
        ("registry:5000/train", "registry:5000/train:latest"),
        ("GHCR.io/team/train:v1", "ghcr.io/team/train:v1"),
        (f"ghcr.io/a/b@{DIGEST}", f"ghcr.io/a/b@{DIGEST}"),
        (f"ghcr.io/a/b:v1@{DIGEST}", f"ghcr.io/a/b:v1@{DIGEST}"),
        ("[::1]:5000/a", "[::1]:5000/a:latest"),
        (
            "europe-west4-docker.pkg.dev/project-1/images/train:v1",
            "europe-west4-docker.pkg.dev/project-1/images/train:v1",
        ),
    ],
)
def test_a_name_means_what_it_means_to_every_tool(text: str, meant: str) -> None:
    assert str(parse(text)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":v1",
        "Ubuntu/",
        "team/Train",
        "ghcr.io/",
        "ghcr.io//a",
        "ghcr.io/a/../b",
        "ghcr.io/a__-b",
        "ghcr.io/a:",
        "ghcr.io/a:-v",
        "ghcr.io/a:" + "v" * 129,
        "ghcr.io/a@sha256:00",
        "ghcr.io/a@sha512:" + "0" * 128,
        f"ghcr.io/a@{DIGEST.upper()}",
        f"ghcr.io/a@{DIGEST}\n",
        "docker://ghcr.io/a",
        "user:secret@ghcr.io/a",
        "ghcr.io:0/a",
        "ghcr.io:65536/a",
        "ghcr.io/a b",
        "ghcr.io/a?x=1",
        "ghcr.io/é",
        "ghcr.io/" + "a/" * 130 + "a",
    ],
)
def test_what_names_no_image_is_refused(text: str) -> None:
    with pytest.raises(NameRefused):
        parse(text)


@given(REGISTRIES, PATHS, st.none() | TAGS, st.none() | st.just(DIGEST))
def test_law_what_is_written_is_read_again(
    registry: str, path: str, tag: str | None, digest: str | None
) -> None:
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    if tag is None and digest is None:
        tag = "latest"
    reference = Reference(
        repository=RepositoryName(registry=registry, path=path), tag=tag, digest=digest
    )
    assert parse(str(reference)) == reference
    assert repository_name(str(reference.repository)) == reference.repository
    assert reference.wanted == (digest or tag)


@given(st.text(max_size=60))
def test_law_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        reference = parse(text)
    except NameRefused:
        return
    assert parse(str(reference)) == reference
