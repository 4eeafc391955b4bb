"""The certificate that brokerd shows, and whose certificates it wants, as the files are now.

The rule: a certificate and its key are taken only together and only when they fit; until then what
was good before is shown on, and ``troubles`` says so. Reading is done by ``refresh``, on the event
loop; the thread that shakes hands only takes what was read. Read ``Certificates.refresh`` first.
"""

import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from broker.access import files
from broker.access.validity import ends_s

PEM_MAX_BYTES = 1 << 20
DAY_S = 86_400.0
SOON_S = 7 * DAY_S  # what renews certificates does so a month or a third of their life before
_log = logging.getLogger(__name__)


class CertificateError(Exception):
    """Certificates that cannot be used; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What is shown: a chain and its key, as PEM. ``roots`` sign clients; None: none are wanted."""

    chain: bytes
    key: bytes = field(repr=False)
    roots: bytes | None


class Certificates:
    """A certificate, its key, and whose clients are let in, by their files."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Read the files. Raises CertificateError."""
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._marks = self._look()
        self.first = self._read()
        self._latest = self.first
        self._renewed: Pair | None = None
        self._trouble = ""

    @property
    def wants_clients(self) -> bool:
        """Whether a client needs a certificate too."""
        return self._client_ca is not None

    def refresh(self) -> None:
        """Read the files again if one of them has changed, or did not fit before."""
        marks = self._look()
        if marks == self._marks and not self._trouble:
            return
        try:
            found = self._read()
        except CertificateError as error:
            if self._trouble != str(error):
                _log.error("the certificate is not renewed: %s", error)
            self._trouble = str(error)
            return
        self._trouble, self._marks = "", marks
        if found != self._latest:
            self._latest = self._renewed = found
            _log.info("the certificate was renewed", extra={"path": self._certificate})

    def take_renewed(self) -> Pair | None:
        """Return what was read since the last call, None for nothing.

        A thread of gRPC calls it. Two that take one pair do no harm.
        """
        renewed, self._renewed = self._renewed, None
        return renewed

    def troubles(self, wall_s: float) -> tuple[str, ...]:
        """Return why the files cannot be used now, and that what is shown ends soon."""
        said = []
        if self._trouble:
            said.append(f"{self._trouble}; the certificate shown is the former one")
        ends = ends_s(self._latest.chain)
        if ends is not None and ends - wall_s < SOON_S:
            days = max(0.0, (ends - wall_s) / DAY_S)
            said.append(f"{self._certificate} ends in {days:.1f} days; nobody connects after that")
        return tuple(said)

    def _read(self) -> Pair:
        try:
            found = self._contents()
            _check_pair(self._certificate, self._key)
            if found != self._contents():
                raise CertificateError(f"{self._certificate} and {self._key} are being changed")
        except files.PrivateFileError as error:
            raise CertificateError(str(error)) from error
        if found.roots is not None:
            _check_roots(self._client_ca, found.roots)
        return found

    def _contents(self) -> Pair:
        ca = self._client_ca
        return Pair(
            chain=files.read_public(self._certificate, PEM_MAX_BYTES),
            key=files.read_private(self._key, PEM_MAX_BYTES),
            roots=None if ca is None else files.read_public(ca, PEM_MAX_BYTES),
        )

    def _look(self) -> tuple[files.Mark | None, ...]:
        paths = (self._certificate, self._key, self._client_ca)
        return tuple(files.mark_of(path) for path in paths if path is not None)


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password=_no_password
        )
    except (ssl.SSLError, ValueError, OSError) as error:
        # What OpenSSL says of a key is not repeated.
        reason = getattr(error, "reason", None) or type(error).__name__
        raise CertificateError(
            f"{certificate} and {key} are no certificate and its key ({reason})"
        ) from None


def _no_password() -> str:
    raise ValueError("a key with a password")


def _check_roots(path: Path | None, roots: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=roots.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{path} holds no certificates of a CA") from error
