"""What sets a member cluster up, as text: manifests whose comments say what each grants. Pure.

The rule: what is printed is what is applied, field by field; no credential is ever part of it.
Read ``text`` first.
"""

import textwrap
from collections.abc import Iterable, Sequence

import yaml

from regions.kueue.bootstrap import ACCOUNT, Piece, Settings

WIDTH = 100


def text(pieces: Sequence[Piece], settings: Settings) -> str:
    """Return all objects as one YAML file, with how to log in after it is applied."""
    told = "".join(f"#     {line}\n" for line in entry(settings))
    head = f"{_comment(login(settings))}# Then tell brokerd of the cluster:\n{told}"
    return f"{head}---\n{documents(pieces)}"


def files(pieces: Sequence[Piece]) -> dict[str, str]:
    """Return the objects as YAML files by name; applied in the order of their names."""
    found: dict[str, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(f"{piece.file}.yaml", []).append(piece)
    return {name: documents(each) for name, each in found.items()}


def documents(pieces: Iterable[Piece]) -> str:
    """Return objects as YAML documents."""
    return "---\n".join(
        _comment(piece.grants) + yaml.safe_dump(piece.manifest, sort_keys=False, width=WIDTH)
        for piece in pieces
    )


def login(settings: Settings) -> tuple[str, ...]:
    """Say how the broker logs in to the cluster."""
    if settings.users:
        return (
            f"The broker logs in as {' or '.join(settings.users)}, with credentials of its own.",
            "On GKE that identity needs roles/container.clusterViewer to find the cluster too.",
        )
    where = f"{ACCOUNT} --namespace {settings.account_namespace}"
    return (
        "No credential is made here, for a file with a token is a secret to be kept.",
        "A brokerd that runs in this cluster runs as the account below (in_cluster = true).",
        f"One that runs elsewhere needs a kubeconfig with a token: kubectl create token {where}.",
        "Such a token ends after an hour, or --duration; brokerd takes a new one from the file.",
        "On GKE name the broker's Google identity instead (--user): then no token is kept at all.",
    )


def entry(settings: Settings, name: str = "") -> tuple[str, ...]:
    """Return what stands in brokerd's configuration for the cluster, line by line.

    ``name`` is what the broker is to call it.
    """
    queues = ", ".join(f'"{each}"' for each in settings.queues)
    return (
        "[[clusters]]",
        'kind = "kueue"',
        f'name = "{name or "NAME"}"',
        'region = "REGION"',
        f'namespace = "{settings.namespace}"',
        f"queues = [{queues}]",
        'kubeconfig = "/FILE"  # or in_cluster = true, or gke = "projects/.../clusters/..."',
        'store = "/DIRECTORY"  # the region\'s store, as brokerd reaches it',
        'profiles = "/FILE"  # where gangs find that store, and what else they get',
    )


def _comment(sentences: Iterable[str]) -> str:
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(
            sentence,
            WIDTH,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in lines)
