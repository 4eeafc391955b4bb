"""What is copied, in which order, and which of an index's images is meant."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ImageRefused, PlatformMissing
from replicator.oci.manifest import Descriptor, Index, Manifest, Platform, read
from replicator.oci.plan import MAX_DEPTH, choose, plan, require_platform, unread
from tests.unit.replicator.oci.images import child, descriptor, digest_of, image, index

AMD64 = Platform(os="linux", architecture="amd64", variant="")
ARM64 = Platform(os="linux", architecture="arm64", variant="")


def tree(*bodies: bytes) -> Mapping[str, Manifest]:
    return {digest_of(body): read("a", body, "") for body in bodies}


def test_blobs_come_once_and_an_index_after_what_it_names() -> None:
    one = image(descriptor(b"base"), descriptor(b"one"), config=b"{1}")
    two = image(descriptor(b"base"), descriptor(b"two"), config=b"{2}")
    top = index(child(one), child(two, "linux/arm64"), child(one, "linux/arm"))
    planned = plan("a", digest_of(top), tree(top, two, one))
    assert [each.body for each in planned.manifests] == [one, two, top]
    assert [each.digest for each in planned.blobs] == [
        digest_of(content) for content in (b"{1}", b"base", b"one", b"{2}", b"two")
    ]
    assert (planned.root.body, planned.size_bytes) == (top, 16)


def test_a_foreign_layer_stays_where_it_is() -> None:
    foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    body = image(descriptor(b"x", foreign, urls=["https://a.example/x"]), descriptor(b""))
    planned = plan("a", digest_of(body), tree(body))
    assert [each.digest for each in planned.blobs] == [digest_of(b"{}"), digest_of(b"")]


def test_one_blob_of_two_sizes_is_refused() -> None:
    body = image(descriptor(b"x"), descriptor(b"x", size=2))
    with pytest.raises(ImageRefused):
        plan("a", digest_of(body), tree(body))


def test_a_child_that_is_not_of_its_size_is_refused() -> None:
    one = image()
    top = index(child(one, size=len(one) + 1))
    with pytest.raises(ImageRefused):
        plan("a", digest_of(top), tree(top, one))


def manifest(name: str, *children: str) -> Manifest:
    """A manifest of no real digest, as a registry that could forge digests would send it."""
    named = tuple(
        Descriptor(media_type="", digest=each, size_bytes=0, platform=None, urls=())
        for each in children
    )
    return Manifest(digest=name, media_type="", body=b"", content=Index(children=named))


@pytest.mark.parametrize(
    "circle", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["c", "b"], "b": ["b"], "c": []}]
)
def test_an_index_that_contains_itself_is_refused(circle: Mapping[str, list[str]]) -> None:
    with pytest.raises(ImageRefused, match="contains itself"):
        plan("x", "a", {name: manifest(name, *inside) for name, inside in circle.items()})


def test_indexes_are_nested_so_deep_and_no_deeper() -> None:
    names = [str(at) for at in range(MAX_DEPTH + 1)]
    chain = {name: manifest(name, *names[at + 1 : at + 2]) for at, name in enumerate(names)}
    assert len(plan("x", "1", chain).manifests) == MAX_DEPTH
    with pytest.raises(ImageRefused, match="deep"):
        plan("x", "0", chain)


@given(st.lists(st.lists(st.integers(0, 11), max_size=6), min_size=1, max_size=12))
def test_law_every_graph_is_ordered_or_refused(edges: list[list[int]]) -> None:
    names = [str(at) for at in range(len(edges))]
    graph = {
        name: manifest(name, *(names[to % len(edges)] for to in edges[at]))
        for at, name in enumerate(names)
    }
    try:
        planned = plan("x", "0", graph)
    except ImageRefused:
        return
    before: set[str] = set()
    for each in planned.manifests:
        assert isinstance(each.content, Index)
        assert {inside.digest for inside in each.content.children} <= before
        assert each.digest not in before
        before.add(each.digest)
    assert planned.root.digest == "0"


def test_what_is_named_is_fetched_next() -> None:
    one, two = image(config=b"1"), image(config=b"2")
    top = index(child(one), child(two), child(one))
    assert [each.digest for each in unread("a", tree(top, one))] == [digest_of(two)]
    assert unread("a", tree(top, one, two)) == ()


def test_too_many_and_too_large_manifests_are_refused_before_they_are_fetched() -> None:
    many = [index(*[child(image(config=b"%d.%d" % (n, m))) for m in range(300)]) for n in (1, 2)]
    with pytest.raises(ImageRefused, match="more than 500"):
        unread("a", tree(*many))
    large = index(*[child(image(config=b"%d" % n), size=1 << 20) for n in range(5)])
    with pytest.raises(ImageRefused, match="more than 4 MiB"):
        unread("a", tree(large))


def of(*platforms: str) -> Index:
    content = read("a", index(*[child(image(), each) for each in platforms]), "").content
    assert isinstance(content, Index)
    return content


@pytest.mark.parametrize(
    ("platforms", "wanted", "chosen"),
    [
        (("linux/arm64", "linux/amd64"), AMD64, "linux/amd64"),
        (("linux/amd64/v3", "linux/amd64"), AMD64, "linux/amd64"),
        (("linux/amd64/v2", "linux/amd64/v3"), AMD64, "linux/amd64/v2"),
        (("linux/arm64/v8",), ARM64, "linux/arm64/v8"),
        (
            ("linux/arm/v6", "linux/arm/v7"),
            Platform(os="linux", architecture="arm", variant="v7"),
            "linux/arm/v7",
        ),
    ],
)
def test_the_image_for_a_platform_is_chosen(
    platforms: tuple[str, ...], wanted: Platform, chosen: str
) -> None:
    assert str(choose("a", of(*platforms), wanted).platform) == chosen


def test_a_platform_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(PlatformMissing) as missing:
        choose("a", of("linux/arm64", "unknown/unknown", "windows/amd64"), AMD64)
    assert str(missing.value) == (
        "a: it is not for linux/amd64; it is for linux/arm64, windows/amd64"
    )
    with pytest.raises(PlatformMissing, match="none that it names"):
        choose("a", of("unknown/unknown"), AMD64)
    with pytest.raises(PlatformMissing):
        choose("a", of("linux/arm/v6"), Platform(os="linux", architecture="arm", variant="v7"))


def test_one_image_is_for_its_own_platform() -> None:
    require_platform("a", AMD64, AMD64)
    require_platform("a", ARM64, Platform(os="linux", architecture="arm64", variant="v8"))
    with pytest.raises(PlatformMissing, match="it is for linux/arm64"):
        require_platform("a", AMD64, ARM64)
