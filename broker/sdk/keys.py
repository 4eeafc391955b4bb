"""Which files of a working directory hold keys: those do not go with a run by accident.

The rule: what is packed lies in every region's store, for whoever reads there; so a file that by
its name, or by what stands in it, is somebody's key is named, and goes along only where its owner
says so. What is meant to be shown (a public key, a certificate, an example) is none. Nothing of
what stands in a file is ever told. Read ``found_in`` first.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

READ_MAX_BYTES = 64 * 1024
"""A file that is larger holds no key alone."""

_BY_NAME: tuple[tuple[str, str], ...] = (
    ("id_rsa", "an SSH key"),
    ("id_dsa", "an SSH key"),
    ("id_ecdsa", "an SSH key"),
    ("id_ecdsa_sk", "an SSH key"),
    ("id_ed25519", "an SSH key"),
    ("id_ed25519_sk", "an SSH key"),
    (".netrc", "logins"),
    ("_netrc", "logins"),
    (".git-credentials", "logins"),
    (".pgpass", "logins"),
    (".pypirc", "logins"),
    ("kaggle.json", "a login"),
    (".vault-token", "a token"),
    ("application_default_credentials.json", "a login at Google"),
    ("*.p12", "a key with its certificate"),
    ("*.pfx", "a key with its certificate"),
    ("*.jks", "a key with its certificate"),
    ("*.kdbx", "a store of passwords"),
    (".env", "an environment with its secrets"),
    (".env.*", "an environment with its secrets"),
    ("*.env", "an environment with its secrets"),
)
_BY_PATH: tuple[tuple[str, str], ...] = (
    (".aws/credentials", "a login at AWS"),
    (".kube/config", "logins at clusters"),
    (".docker/config.json", "logins at registries"),
    (".huggingface/token", "a token"),
    (".ssh/*.pub", ""),
    (".ssh/known_hosts", ""),
    (".ssh/config", ""),
    (".ssh/authorized_keys", ""),
    (".ssh/*", "an SSH key"),
)
_SHOWN = ("example", "sample", "template", "dist", "defaults")
"""Of an environment these tell what is to be filled in."""

_PRIVATE_KEY = re.compile(
    rb"^-----BEGIN (?:[A-Z0-9 ]{1,30} )?PRIVATE KEY(?: BLOCK)?-----\s*$", re.M
)
_SERVICE_ACCOUNT = re.compile(rb'"type"\s*:\s*"service_account"')
_AUTHORIZED_USER = re.compile(rb'"type"\s*:\s*"authorized_user"')
_AWS_KEY = re.compile(rb"^\s*aws_secret_access_key\s*=\s*\S{16,}", re.M | re.I)
_KUBECONFIG = re.compile(rb"^kind:\s*[\"']?Config[\"']?\s*$", re.M)
_KUBE_USER = re.compile(rb"^\s*(?:client-key-data|token|password):\s*\S", re.M)

_MARKS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda data: b"PRIVATE KEY" in data and bool(_PRIVATE_KEY.search(data)), "a private key"),
    (
        lambda data: b"private_key" in data and bool(_SERVICE_ACCOUNT.search(data)),
        "a service account's key",
    ),
    (
        lambda data: b"refresh_token" in data and bool(_AUTHORIZED_USER.search(data)),
        "a login at Google",
    ),
    (lambda data: bool(_AWS_KEY.search(data)), "a login at AWS"),
    (
        lambda data: bool(_KUBECONFIG.search(data)) and bool(_KUBE_USER.search(data)),
        "logins at clusters",
    ),
)


def found_in(root: Path, paths: Iterable[str], allowed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path that holds a key, and what kind of key it is.

    ``allowed`` are patterns, as of a shell, of paths that are not looked at.
    """
    patterns = tuple(allowed)
    for path in paths:
        if any(fnmatchcase(path, one) for one in patterns):
            continue
        what = kind_by_name(path) or kind_by_content(root / path)
        if what:
            yield path, what


def kind_by_name(path: str) -> str:
    """Return what kind of key a file is called after, empty for none."""
    name = PurePosixPath(path).name
    for pattern, what in _BY_PATH:
        if PurePosixPath(path).match(pattern):
            return what
    is_shown = name.rpartition(".")[2] in _SHOWN or name.removesuffix(".env") in _SHOWN
    for pattern, what in _BY_NAME:
        if fnmatchcase(name, pattern) and not (is_shown and "env" in pattern):
            return what
    return ""


def kind_by_content(path: Path) -> str:
    """Return what kind of key stands in a file, empty for none, or for one that cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > READ_MAX_BYTES:
            return ""
        with path.open("rb") as file:
            data = file.read(READ_MAX_BYTES)
    except OSError:
        return ""  # who packs it says why
    return next((what for is_marked, what in _MARKS if is_marked(data)), "")
