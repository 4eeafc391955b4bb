"""Where a registry may send us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from replicator.errors import RegistryRefused
from replicator.oci.locations import followed, realm, same_origin, upload, with_query

ASKED = URL("https://registry.example/v2/a/blobs/uploads/")
PLAIN = URL("http://127.0.0.1:5000/v2/a/blobs/uploads/")


@pytest.mark.parametrize(
    ("asked", "location", "expected"),
    [
        (ASKED, "/v2/x?_state=a%3D%3D", "https://registry.example/v2/x?_state=a%3D%3D"),
        (ASKED, "https://registry.example:443/x", "https://registry.example/x"),
        (ASKED, "next", "https://registry.example/v2/a/blobs/uploads/next"),
        (PLAIN, "http://127.0.0.1:5000/x%2Fy?a=b%2Fc", "http://127.0.0.1:5000/x%2Fy?a=b%2Fc"),
    ],
)
def test_an_upload_goes_on_at_its_registry_in_its_own_words(
    asked: URL, location: str, expected: str
) -> None:
    assert str(upload("a", asked, location)) == expected


ABSURD = [
    None,
    "",
    "file:///etc/passwd",
    "ftp://registry.example/x",
    "javascript:alert(1)",
    "data:,x",
    "unix:/run/docker.sock",
    "https://user:secret@registry.example/x",
    "https://registry.example:99999/x",
    "https://registry.example:x/x",
    "https://[::1/x",
    "https://registry.example/a b",
    "https://registry.example/\r\nX: y",
    "https://registry.example/é",
    "/x" * 5_000,
    "http://registry.example/x",  # without TLS
]


@pytest.mark.parametrize("location", ABSURD)
def test_nobody_goes_where_there_is_no_place(location: str | None) -> None:
    with pytest.raises(RegistryRefused):
        upload("a", ASKED, location)
    with pytest.raises(RegistryRefused):
        followed("a", ASKED, location)


@pytest.mark.parametrize("location", ["https://elsewhere.example/x", "https://registry.example:8/"])
def test_reads_are_followed_to_other_hosts_and_uploads_are_not(location: str) -> None:
    assert str(followed("a", ASKED, location)) == location
    with pytest.raises(RegistryRefused):
        upload("a", ASKED, location)


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "[::1]", "169.254.169.254", "metadata.google.internal", "0.0.0.0"],
)
def test_nobody_is_sent_into_the_machines_own_network(host: str) -> None:
    with pytest.raises(RegistryRefused):
        followed("a", ASKED, f"https://{host}/x")
    assert followed("a", PLAIN, f"https://{host}/x").host is not None


def test_origins_are_compared_with_their_ports() -> None:
    assert same_origin(URL("https://a/x"), URL("https://a:443/y"))
    assert not same_origin(URL("https://a/x"), URL("http://a:443/x"))
    assert not same_origin(URL("https://a/x"), URL("https://a:8443/x"))


def test_tokens_are_asked_for_over_no_worse_a_line() -> None:
    assert realm("a", ASKED, "https://auth.example/token").host == "auth.example"
    with pytest.raises(RegistryRefused):
        realm("a", ASKED, "http://auth.example/token")


@given(st.text(st.sampled_from("abc%25F3D=&/~._-"), max_size=20))
def test_law_a_parameter_is_added_and_nothing_else_changed(query: str) -> None:
    url = URL(f"https://a.example/x%2Fy?{query}", encoded=True)
    added = str(with_query(url, "digest", "sha256:00"))
    assert added == f"https://a.example/x%2Fy?{query}{'&' if query else ''}digest=sha256%3A00"
