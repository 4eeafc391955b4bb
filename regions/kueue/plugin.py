"""A kubeconfig's credential plugin: a program that prints who we are.

The rule: its output and its errors are secrets, so that neither stands in what is raised here; one
that does not come to its end is ended with all that it started; and its answer is credentials or
an AccessError, never nobody. Read ``ask``.
"""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from regions.kueue.errors import AccessError
from regions.kueue.objects.reading import unix_s

LONGEST_ANSWER_BYTES = 1 << 20


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class Plugin(msgspec.Struct, frozen=True, rename="camel"):
    """What a kubeconfig says of it; whatever else it says there is for people's terminals."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What it gave: a token, or a certificate and its key in PEM; ``ends_s`` in Unix seconds."""

    token: str
    certificate: str
    key: str
    ends_s: float | None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status


def read(raw: object) -> Plugin:
    """Return a plugin as a kubeconfig's ``exec`` has it. Raises AccessError."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(raw, Plugin)
    raise AccessError("the kubeconfig's exec is none: it takes apiVersion, command, args and env")


async def ask(plugin: Plugin, folder: str) -> Given:
    """Run it and return what it gives. A relative path is one from the kubeconfig's ``folder``.

    Raises AccessError.
    """
    output = await _output(plugin, folder)
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _failed(plugin, "its answer is no ExecCredential") from None
    if (answer.kind, answer.api_version) != ("ExecCredential", plugin.api_version):
        raise _failed(plugin, f"its answer is no ExecCredential of {plugin.api_version}")
    status = answer.status
    token = status.token or ""
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if not token and not (certificate and key):
        raise _failed(plugin, "its answer has no token, and no certificate with its key")
    ends_s = None
    if status.expiration_timestamp is not None:
        ends_s = unix_s(status.expiration_timestamp)
        if ends_s is None:
            raise _failed(plugin, "its answer does not say when its credentials end")
    return Given(token=token, certificate=certificate, key=key, ends_s=ends_s)


async def _output(plugin: Plugin, folder: str) -> bytes:
    """Run it to its end and return what it printed."""
    # It prints into memory: a pipe would have to be emptied before its end can be waited for, and
    # what it left running could hold that open.
    with os.fdopen(os.memfd_create("credentials"), "w+b") as printed:
        status = await _run(plugin, folder, printed.fileno())
        if status != 0:
            raise _failed(plugin, f"it ended with {status}; run it by hand to read why")
        if printed.seek(0, os.SEEK_END) > LONGEST_ANSWER_BYTES:
            raise _failed(plugin, f"it prints more than {LONGEST_ANSWER_BYTES} bytes")
        printed.seek(0)
        return printed.read()


async def _run(plugin: Plugin, folder: str, printed: int) -> int:
    told = {"kind": "ExecCredential", "apiVersion": plugin.api_version}
    environment = dict(os.environ) | {each.name: each.value for each in plugin.env or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(told | {"spec": {"interactive": False}})
    try:
        process = await asyncio.create_subprocess_exec(
            _program(plugin, folder, environment),
            *(plugin.args or ()),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=printed,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _failed(plugin, getattr(error, "strerror", None) or "it has no valid call") from None
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise


def _program(plugin: Plugin, folder: str, environment: Mapping[str, str]) -> str:
    """Return its file, as kubectl finds it."""
    if os.sep in plugin.command:
        return os.path.join(folder, plugin.command)
    return shutil.which(plugin.command, path=environment.get("PATH")) or plugin.command


def _failed(plugin: Plugin, why: str) -> AccessError:
    return AccessError(f"the credential plugin {plugin.command} gave no credentials: {why}")
