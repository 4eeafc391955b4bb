"""Certificates of a CA that lives as long as the tests: real ones, made when they are wanted."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import trustme


@cache
def authority(name: str = "one") -> trustme.CA:
    """Return the CA of a name, the same one each time."""
    return trustme.CA(organization_name=name)


def roots(name: str = "one") -> bytes:
    """Return what a client trusts who trusts that CA."""
    return authority(name).cert_pem.bytes()


def write_pair(
    folder: Path, ca: str = "one", host: str = "localhost", *, is_here: bool = True
) -> tuple[Path, Path]:
    """Put a fresh certificate and its key into a folder, in the place of those that are there.

    ``is_here``: it is for this machine's own address too.
    """
    issued = authority(ca).issue_cert(host, *(["127.0.0.1"] if is_here else []))
    chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
    return (
        _put(folder / "tls.crt", chain, 0o644),
        _put(folder / "tls.key", issued.private_key_pem.bytes(), 0o600),
    )


def write_roots(folder: Path, ca: str = "one") -> Path:
    """Put the CA's own certificate into a folder."""
    return _put(folder / f"ca-{ca}.crt", roots(ca), 0o644)


def _put(path: Path, data: bytes, mode: int) -> Path:
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.chmod(mode)
    os.replace(beside, path)
    return path
