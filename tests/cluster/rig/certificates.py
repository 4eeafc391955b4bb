"""The rig's authorities and keys, made anew for each rig: nothing secret is kept in the repository.

The rule: clients' authority and the aggregator's are two, or the API server refuses to start.
Read ``write_certificates``.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml

ADMIN = "admin"
# Users that have no right until a test grants them some.
PLAIN_USERS = ("broker", "stranger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The files of one rig, and each user's bearer token."""

    ca: Path
    server_cert: Path
    server_key: Path
    front_ca: Path
    front_cert: Path
    front_key: Path
    account_key: Path
    tokens_file: Path
    tokens: dict[str, str]

    @property
    def ca_base64(self) -> str:
        """The authority as Kubernetes objects carry it."""
        return base64.b64encode(self.ca.read_bytes()).decode()


def write_certificates(folder: Path) -> Certificates:
    """Make authorities, a server's certificate for loopback, the keys and the tokens."""
    folder.mkdir(mode=0o700, parents=True)
    ca, front = trustme.CA(), trustme.CA()
    server = ca.issue_cert("127.0.0.1", "localhost")
    proxy = front.issue_cert("front-proxy-client", common_name="front-proxy-client")
    account = trustme.CA().issue_cert("service-accounts.invalid")
    tokens = {user: secrets.token_hex(16) for user in (ADMIN, *PLAIN_USERS)}
    made = Certificates(
        ca=folder / "ca.crt",
        server_cert=folder / "tls.crt",
        server_key=folder / "tls.key",
        front_ca=folder / "front-ca.crt",
        front_cert=folder / "front.crt",
        front_key=folder / "front.key",
        account_key=folder / "account.key",
        tokens_file=folder / "tokens.csv",
        tokens=tokens,
    )
    ca.cert_pem.write_to_path(str(made.ca))
    front.cert_pem.write_to_path(str(made.front_ca))
    account.private_key_pem.write_to_path(str(made.account_key))
    for cert, key, leaf in (
        (made.server_cert, made.server_key, server),
        (made.front_cert, made.front_key, proxy),
    ):
        leaf.private_key_pem.write_to_path(str(key))
        cert.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    made.tokens_file.write_text(
        "".join(
            f"{token},{user},{user},{'system:masters' if user == ADMIN else 'rig:users'}\n"
            for user, token in tokens.items()
        )
    )
    return made


def kubeconfig(name: str, port: int, made: Certificates, user: str) -> str:
    """Return the text of a kubeconfig for one user of one region."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": f"https://127.0.0.1:{port}",
                        "certificate-authority-data": made.ca_base64,
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": made.tokens[user]}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        }
    )
