"""What is read of a manifest, and what is not believed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ImageRefused
from replicator.oci.manifest import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    MAX_BLOB_BYTES,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    Image,
    Index,
    Platform,
    read,
    read_platform,
)
from tests.unit.replicator.oci.images import (
    LAYER,
    child,
    descriptor,
    digest_of,
    encoded,
    image,
    index,
)

AMD64 = Platform(os="linux", architecture="amd64", variant="")


def test_an_image_is_read() -> None:
    body = image(descriptor(b"one"), descriptor(b"two", urls=["https://a.example/two"]))
    read_image = read("a", body, OCI_MANIFEST)
    assert (read_image.digest, read_image.media_type, read_image.body) == (
        digest_of(body),
        OCI_MANIFEST,
        body,
    )
    assert isinstance(read_image.content, Image)
    assert read_image.content.layers == (
        Descriptor(
            media_type=LAYER, digest=digest_of(b"one"), size_bytes=3, platform=None, urls=()
        ),
        Descriptor(
            media_type=LAYER,
            digest=digest_of(b"two"),
            size_bytes=3,
            platform=None,
            urls=("https://a.example/two",),
        ),
    )


@pytest.mark.parametrize("media_type", [OCI_INDEX, DOCKER_LIST])
def test_an_index_is_read(media_type: str) -> None:
    body = index(child(image()), media_type=media_type)
    found = read("a", body, media_type)
    assert found.media_type == media_type
    assert isinstance(found.content, Index)
    assert [each.platform for each in found.content.children] == [AMD64]


@pytest.mark.parametrize("sent", ["", "application/json", "text/plain; charset=utf-8"])
@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (image(), OCI_MANIFEST),
        (image(mediaType=DOCKER_MANIFEST), DOCKER_MANIFEST),
        (image(mediaType=None), OCI_MANIFEST),
        (index(mediaType=None), OCI_INDEX),
    ],
)
def test_a_type_that_is_not_sent_is_taken_from_what_is_there(
    body: bytes, media_type: str, sent: str
) -> None:
    assert read("a", body, sent).media_type == media_type


@pytest.mark.parametrize(
    ("media_type", "urls", "is_foreign"),
    [
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", ["https://a/b"], True),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", ["https://a/b"], True),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", [], False),
        (LAYER, ["https://a/b"], False),
    ],
)
def test_a_layer_is_foreign_by_its_type_and_its_urls(
    media_type: str, urls: list[str], is_foreign: bool
) -> None:
    found = read("a", image(descriptor(b"", media_type, urls=urls)), OCI_MANIFEST).content
    assert isinstance(found, Image)
    assert found.layers[0].is_foreign is is_foreign


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"", OCI_MANIFEST),
        (b"\xff\xfe", OCI_MANIFEST),
        (b"[" * 100_000, OCI_MANIFEST),
        (b"[]", OCI_MANIFEST),
        (b"{}", OCI_MANIFEST),
        (b'{"manifests": {}}', OCI_INDEX),
        (encoded({"schemaVersion": 1, "fsLayers": []}), ""),
        (image(), "application/vnd.docker.distribution.manifest.v1+prettyjws"),
        (image(), OCI_INDEX),
        (image(), DOCKER_MANIFEST),
        (image(manifests=[]), OCI_MANIFEST),
        (index(layers=[]), OCI_INDEX),
        (image(mediaType="application/vnd.example"), ""),
        (image(mediaType=["a"]), ""),
        (image(mediaType=OCI_INDEX), ""),
        (encoded({"config": None, "layers": []}), OCI_MANIFEST),
        (image(layers={}), OCI_MANIFEST),
        (image(descriptor(digest="sha256:00")), OCI_MANIFEST),
        (image(descriptor(digest="sha512:" + "0" * 128)), OCI_MANIFEST),
        (image(descriptor(digest=None)), OCI_MANIFEST),
        (image(descriptor(size=-1)), OCI_MANIFEST),
        (image(descriptor(size=True)), OCI_MANIFEST),
        (image(descriptor(size="3")), OCI_MANIFEST),
        (image(descriptor(size=3.0)), OCI_MANIFEST),
        (image(descriptor(size=MAX_BLOB_BYTES + 1)), OCI_MANIFEST),
        (image(descriptor(mediaType=None)), OCI_MANIFEST),
        (image(descriptor(urls="https://a")), OCI_MANIFEST),
        (image(descriptor(urls=[1])), OCI_MANIFEST),
        (image(*[descriptor()] * 1_001), OCI_MANIFEST),
        (index(*[child(image())] * 501), OCI_INDEX),
        (index(child(image()) | {"platform": "linux"}), OCI_INDEX),
        (index(child(image()) | {"platform": {"os": ["linux"]}}), OCI_INDEX),
        (index(child(image()) | {"platform": {"os": "x" * 65}}), OCI_INDEX),
    ],
)
def test_what_is_no_image_is_refused(body: bytes, sent: str) -> None:
    with pytest.raises(ImageRefused):
        read("a", body, sent)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["mediaType", "manifests", "layers", "config", "digest", "size", "platform", "urls"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, "", "application/json"]))
def test_law_anything_is_an_image_or_refused(found: object, sent: str) -> None:
    body = json.dumps(found).encode()
    try:
        manifest = read("a", body, sent)
    except ImageRefused:
        return
    assert (manifest.digest, manifest.body) == (digest_of(body), body)


def test_what_an_image_says_is_shown_without_what_a_terminal_obeys() -> None:
    with pytest.raises(ImageRefused) as refused:
        read("a", image(descriptor(digest="\x1b[2J" + "x" * 10_000)), OCI_MANIFEST)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("config", [b"", b"[]", b"{}", b'{"os": 3}', b'{"os": ""}', b"[" * 100_000])
def test_a_configuration_without_a_platform_is_refused(config: bytes) -> None:
    with pytest.raises(ImageRefused):
        read_platform("a", config)


def test_a_configuration_says_its_platform() -> None:
    assert read_platform("a", b'{"os": "linux", "architecture": "amd64"}') == AMD64
