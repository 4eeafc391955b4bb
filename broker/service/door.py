"""The door for other machines: an address, its certificate, and who is let in.

The rule: it is another gRPC server than that of this machine's socket, so that no call can come by
one and be taken for one that came by the other. Read ``Door`` first.
"""

from collections.abc import Callable

import grpc

from broker.access.certificates import Certificates, Pair
from broker.access.keyring import Keyring
from broker.access.tries import Tries
from broker.service.admission import Admission, Note


class Door:
    """Where other machines come in."""

    def __init__(
        self,
        address: str,
        *,
        keyring: Keyring,
        certificates: Certificates,
        clock: Callable[[], float],
        wall: Callable[[], float],
        note: Note,
    ) -> None:
        """``clock`` never goes back, ``wall`` is Unix seconds, ``note`` counts refusals."""
        self.address = address
        self.admission = Admission(keyring, Tries(clock), wall=wall, note=note)
        self._keyring = keyring
        self._certificates = certificates
        self._wall = wall

    def credentials(self) -> grpc.ServerCredentials:
        """Return what is shown to whoever connects; a renewed certificate is shown from then on."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._certificates.first),
            self._renewed,  # type: ignore[arg-type]  # None means the same as before: grpc's docs
            require_client_authentication=self._certificates.wants_clients,
        )

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what is to be shown from now on, None for the same. A thread of gRPC asks."""
        pair = self._certificates.take_renewed()
        return None if pair is None else _configuration(pair)

    async def tick(self) -> None:
        """Take in what has changed in the files."""
        self._certificates.refresh()
        await self.admission.tick()

    def troubles(self) -> tuple[str, ...]:
        """Return what is wrong with the files, in sentences."""
        tokens = self._keyring.trouble()
        return (*((tokens,) if tokens else ()), *self._certificates.troubles(self._wall()))


def _configuration(pair: Pair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pair.key, pair.chain)], root_certificates=pair.roots
    )
