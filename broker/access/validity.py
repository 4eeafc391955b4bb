"""Until when a certificate holds, read from its DER: the standard library tells only of CAs.

The rule: what cannot be read is None, and nothing is concluded from it. Read ``ends_s``.
"""

import ssl
from datetime import UTC, datetime

_VERSION, _UTC_TIME, _GENERAL_TIME = 0xA0, 0x17, 0x18
_END = "-----END CERTIFICATE-----"


def ends_s(chain: bytes) -> float | None:
    """Return when the first certificate of a PEM chain ends, in Unix seconds; None if unknown."""
    try:
        text = chain.decode("ascii")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(text[begin : text.index(_END, begin) + len(_END)])
        _, inside, _ = _value(_value(der)[1])
        # Of a TBSCertificate (RFC 5280, 4.1): version, serial, algorithm, issuer, validity.
        if inside[0] == _VERSION:
            _, _, inside = _value(inside)
        for _ in ("serial", "algorithm", "issuer"):
            _, _, inside = _value(inside)
        _, validity, _ = _value(inside)
        _, _, after = _value(validity)
        tag, moment, _ = _value(after)
        return _moment_s(tag, moment.decode("ascii"))
    except (ValueError, IndexError):
        return None


def _value(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and the content of the first value, and what comes after it."""
    tag, length, at = data[0], data[1], 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
    if at + length > len(data):
        raise ValueError("cut short")
    return tag, data[at : at + length], data[at + length :]


def _moment_s(tag: int, text: str) -> float:
    if tag == _UTC_TIME:
        # Two digits of a year: from 50 on they are of the last century (RFC 5280, 4.1.2.5.1).
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERAL_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
