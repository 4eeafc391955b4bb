"""Until when a certificate holds, as another library has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from broker.access.validity import ends_s

KEY = ec.generate_private_key(ec.SECP256R1())


def made(ends: datetime, name: str = "broker") -> bytes:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - timedelta(days=1))
        .not_valid_after(ends)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    "ends",
    [
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 11, 30, 4, 30, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
)
def test_a_certificate_ends_when_it_says(ends: datetime) -> None:
    assert ends_s(made(ends, name="b" * 60)) == ends.timestamp()


def test_of_a_chain_it_is_the_first() -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    ca = trustme.CA().cert_pem.bytes()
    assert ends_s(b"a word before\n" + made(ends) + ca) == ends.timestamp()


@given(at=st.integers(0, 600), byte=st.integers(0, 255))
def test_what_cannot_be_read_is_unknown(at: int, byte: int) -> None:
    pem = bytearray(made(datetime(2030, 1, 1, tzinfo=UTC)))
    pem[at % len(pem)] = byte
    found = ends_s(bytes(pem))
    assert found is None or found < 1e12
    assert ends_s(bytes(pem)[:at]) in (None, found)


def test_what_is_none_is_unknown() -> None:
    assert [ends_s(one) for one in (b"", b"\xff", b"-----BEGIN CERTIFICATE-----")] == [None] * 3
