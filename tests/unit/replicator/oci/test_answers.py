"""What stands in a registry's headers, and what its refusals mean."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import (
    Corrupt,
    ImageMissing,
    LoginRefused,
    RegistryBusy,
    RegistryRefused,
    RegistryUnreachable,
    ReplicatorError,
)
from replicator.oci import headers
from replicator.oci.answers import code_of, refusal
from replicator.oci.challenge import Challenge, parse

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ("Basic", [("basic", {})]),
        ('Basic realm="a b"', [("basic", {"realm": "a b"})]),
        (
            'Bearer realm="https://a/t",service="s, x",scope="repository:a:pull,push"',
            [
                (
                    "bearer",
                    {"realm": "https://a/t", "service": "s, x", "scope": "repository:a:pull,push"},
                )
            ],
        ),
        (
            'Negotiate, Basic realm=x , Bearer Realm = "a\\"b",error=e',
            [
                ("negotiate", {}),
                ("basic", {"realm": "x"}),
                ("bearer", {"realm": 'a"b', "error": "e"}),
            ],
        ),
        ('NTLM TlRM==, Basic realm="r"', [("ntlm", {}), ("basic", {"realm": "r"})]),
        ('Bearer realm="1",realm="2"', [("bearer", {"realm": "1"})]),
        ('Bearer realm="open', [("bearer", {})]),
        ("realm=x", []),
        (', ,Basic realm="a"', [("basic", {"realm": "a"})]),
    ],
)
def test_challenges_are_read(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert parse([header]) == tuple(
        Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in expected
    )


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
CHALLENGES = st.lists(
    st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=4)), min_size=1, max_size=4
)


@given(CHALLENGES)
def test_law_challenges_that_are_written_are_read(
    challenges: list[tuple[str, dict[str, str]]],
) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = ", ".join(
        f"{scheme} " + ",".join(f"{name}={quoted(value)}" for name, value in parameters.items())
        for scheme, parameters in challenges
    )
    assert [(each.scheme, dict(each.parameters)) for each in parse([header])] == challenges


@given(st.text(max_size=100))
def test_law_any_header_is_read(header: str) -> None:
    assert all(each.scheme for each in parse([header]))


@pytest.mark.parametrize(
    ("value", "date", "expected"),
    [
        (None, DATE, None),
        ("7", None, 7.0),
        ("999999", None, 3600.0),
        ("-1", None, None),
        ("1e3", None, None),
        ("soon", DATE, None),
        ("Wed, 21 Oct 2026 07:28:30 GMT", DATE, 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", DATE, 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", None, None),
        ("Wed, 21 Oct 99999 07:28:30 GMT", DATE, None),
        ("Wed, 21 Oct 2026 07:28:30 -0000", DATE, 30.0),
    ],
)
def test_how_long_to_wait_is_read(
    value: str | None, date: str | None, expected: float | None
) -> None:
    assert headers.retry_after_s(value, date) == expected


def test_ranges_are_read() -> None:
    assert [headers.first_byte(text) for text in ("bytes 3-9/10", "bytes 3-9/*", "3-9", None)] == [
        3,
        3,
        None,
        None,
    ]
    assert [headers.received_bytes(text) for text in ("0-9", "bytes=0-9", "0-0", "5-9", None)] == [
        10,
        10,
        0,
        None,
        None,
    ]
    assert [headers.length(text) for text in ("0", "12", "-1", "1_0", "٣", None)] == [
        0,
        12,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("status", "code", "sent", "kind", "can_retry"),
    [
        (401, "UNAUTHORIZED", {}, LoginRefused, False),
        (403, "DENIED", {}, LoginRefused, False),
        (404, "MANIFEST_UNKNOWN", {}, ImageMissing, False),
        (404, "BLOB_UPLOAD_UNKNOWN", {}, RegistryUnreachable, True),
        (400, "MANIFEST_BLOB_UNKNOWN", {}, RegistryUnreachable, True),
        (400, "DIGEST_INVALID", {}, Corrupt, False),
        (405, "UNSUPPORTED", {}, RegistryRefused, False),
        (429, "TOOMANYREQUESTS", {"Retry-After": "9"}, RegistryBusy, True),
        (429, "", {}, RegistryBusy, True),
        (500, "", {}, RegistryUnreachable, True),
        (503, "", {}, RegistryUnreachable, True),
        (503, "", {"Retry-After": "9"}, RegistryBusy, True),
        (302, "", {}, RegistryRefused, False),
    ],
)
def test_a_refusal_is_one_kind_of_error(
    status: int,
    code: str,
    sent: Mapping[str, str],
    kind: type[ReplicatorError],
    can_retry: bool,
) -> None:
    found = refusal("a", status, code, sent, has_login=True)
    assert (type(found), found.can_retry) == (kind, can_retry)


def test_a_refusal_says_for_how_long() -> None:
    found = refusal("a", 429, "", {"Retry-After": "9"}, has_login=False)
    assert isinstance(found, RegistryBusy)
    assert (found.retry_after_s, str(found)) == (
        9.0,
        "a: the registry asks to be left alone for 9 s (429)",
    )


def test_a_login_that_is_missing_is_told_from_one_that_is_refused() -> None:
    assert "none is configured" in str(refusal("a", 401, "", {}, has_login=False))
    assert "refuses the login" in str(refusal("a", 401, "", {}, has_login=True))


def test_a_repository_that_is_missing_is_no_image_that_is_missing() -> None:
    found = refusal("a", 404, "NAME_UNKNOWN", {}, has_login=True, is_write=True)
    assert type(found) is RegistryRefused


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"errors": [{"code": "DENIED", "message": "Bearer secret"}]}', "DENIED"),
        (b'{"errors": [{"code": "bearer secret"}]}', ""),
        (b'{"errors": [{"code": ["DENIED"]}]}', ""),
        (b'{"errors": []}', ""),
        (b'{"errors": 3}', ""),
        (b"<html>", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_of_a_registrys_words_its_code_is_taken(body: bytes, code: str) -> None:
    assert code_of(body) == code


@given(st.integers(300, 599), st.text(max_size=20), st.dictionaries(NAMES, VALUES))
def test_law_every_status_is_an_error_with_a_reason(
    status: int, body: str, sent: Mapping[str, Any]
) -> None:
    found = refusal("a", status, code_of(body.encode()), sent, has_login=True)
    assert found.reason.isupper()
