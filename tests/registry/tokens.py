"""A server that gives out tokens which docker-registry believes: signed, for named rights only.

The rule: a token is good for what was asked of it and permitted, and for as long as it says. Read
``TokenServer``.
"""

import base64
import contextlib
import json
import secrets
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.fakes.threaded import threaded
from tests.registry.servers import PASSWORD, USER

ISSUER, SERVICE = "tests", "registry"
LIVES_S = 60


class TokenServer:
    """Listens on the loopback; ``given`` are the rights of each token that it gave."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._certificate = _certificate(self._key)
        self.bundle = folder / "tokens.pem"
        self.bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self.given: list[list[str]] = []
        self._serving = contextlib.ExitStack()
        self._root = self._serving.enter_context(threaded(self._handler(), "tokens"))

    @property
    def realm(self) -> str:
        """Where it is asked."""
        return f"{self._root}/token"

    def close(self) -> None:
        """Listen no more."""
        self._serving.close()

    def config(self) -> dict[str, object]:
        """Return what a registry is told, to believe it."""
        return {
            "token": {
                "realm": self.realm,
                "service": SERVICE,
                "issuer": ISSUER,
                "rootcertbundle": str(self.bundle),
            }
        }

    def token(self, scopes: list[str]) -> str:
        """Sign a token for rights, such as ``repository:team/train:pull,push``."""
        now = int(time.time())
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        encoded = self._certificate.public_bytes(serialization.Encoding.DER)
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(encoded).decode()]}
        claims = {
            "iss": ISSUER,
            "sub": USER,
            "aud": SERVICE,
            "exp": now + LIVES_S,
            "nbf": now - 10,
            "iat": now,
            "jti": secrets.token_hex(8),
            "access": access,
        }
        signed = f"{_text(json.dumps(head).encode())}.{_text(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                if self.headers.get("Authorization") != f"Basic {pair}":
                    self.send_error(401)
                    return
                scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
                server.given.append(scopes)
                body = json.dumps({"token": server.token(scopes), "expires_in": LIVES_S}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: what was asked is in ``given``."""

        return Handler


def _certificate(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
