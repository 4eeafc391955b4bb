"""The certificate that is shown is the newest that fits its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from broker.access.certificates import DAY_S, SOON_S, CertificateError, Certificates
from broker.access.validity import ends_s
from tests.fakes import certificates

NOW_S = 1_800_000_000.0


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return certificates.write_pair(tmp_path)


def test_what_fits_is_shown(pair: tuple[Path, Path]) -> None:
    found = Certificates(*pair, None)
    assert (found.first.chain, found.first.key) == tuple(one.read_bytes() for one in pair)
    assert not found.wants_clients
    assert found.take_renewed() is None


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda crt, key: crt.unlink(), "tls.crt is not there"),
        (lambda crt, key: key.unlink(), "tls.key is not there"),
        (lambda crt, key: key.chmod(0o644), r"tls.key can be read .*mode 0644"),
        (lambda crt, key: crt.write_text("x"), "are no certificate and its key"),
        (lambda crt, key: crt.write_bytes(certificates.roots("other")), "KEY_VALUES_MISMATCH"),
        (lambda crt, key: key.write_text(locked(key)), "no certificate and its key"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(
    pair: tuple[Path, Path], spoil: Callable[[Path, Path], None], words: str
) -> None:
    spoil(*pair)
    with pytest.raises(CertificateError, match=words) as caught:
        Certificates(*pair, None)
    assert "PRIVATE KEY" not in str(caught.value)


def locked(key: Path) -> str:
    """Return a key with a password."""
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    ).decode()


def test_a_renewed_pair_is_taken_once_and_only_when_both_are_there(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    found = Certificates(*pair, None)
    old_key = pair[1].read_bytes()
    certificates.write_pair(tmp_path)
    new_key = pair[1].read_bytes()
    pair[1].write_bytes(old_key)
    found.refresh()
    assert found.take_renewed() is None
    (told,) = found.troubles(NOW_S)
    assert told.endswith("; the certificate shown is the former one")
    pair[1].write_bytes(new_key)
    found.refresh()
    renewed = found.take_renewed()
    assert renewed is not None
    assert renewed.chain == pair[0].read_bytes()
    assert found.take_renewed() is None
    assert found.troubles(NOW_S) == ()
    found.refresh()
    assert found.take_renewed() is None


def test_a_ca_of_clients_is_held_to_be_one(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    ca = certificates.write_roots(tmp_path, "clients")
    found = Certificates(*pair, ca)
    assert found.wants_clients
    assert found.first.roots == ca.read_bytes()
    ca.write_text("no ca")
    found.refresh()
    assert "holds no certificates of a CA" in found.troubles(NOW_S)[0]
    with pytest.raises(CertificateError, match="holds no certificates of a CA"):
        Certificates(*pair, ca)


def test_a_certificate_that_ends_soon_is_told(pair: tuple[Path, Path]) -> None:
    found = Certificates(*pair, None)
    ends = ends_s(pair[0].read_bytes())
    assert ends is not None
    assert found.troubles(ends - SOON_S) == ()
    assert found.troubles(ends - DAY_S) == (
        f"{pair[0]} ends in 1.0 days; nobody connects after that",
    )
    assert "ends in 0.0 days" in found.troubles(ends + DAY_S)[0]


def test_no_form_of_it_shows_the_key(pair: tuple[Path, Path]) -> None:
    found = Certificates(*pair, None)
    assert found.first.key.decode().splitlines()[1] not in repr(found.first)
