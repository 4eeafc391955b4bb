"""What a registry's refusal means: a status, a code, and two headers, made into one error.

The rule: nothing that the registry wrote is repeated but a code of capital letters. It may hold
what we sent it, a login among that. Read ``refusal`` first.
"""

import json
import re
from collections.abc import Mapping

from replicator.errors import (
    Corrupt,
    ImageMissing,
    LoginRefused,
    RegistryBusy,
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    ReplicatorError,
)
from replicator.oci import headers

MAX_ERROR_BYTES = 64 << 10
_CODE = re.compile(r"[A-Z][A-Z_]{0,39}")


def code_of(body: bytes) -> str:
    """Return the first code that a registry's error names, empty when it names none."""
    try:
        code = json.loads(body)["errors"][0]["code"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return ""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def refusal(
    name: str,
    status: int,
    code: str,
    sent: Mapping[str, str],
    *,
    has_login: bool,
    is_write: bool = False,
) -> ReplicatorError:
    """Return the error that an answer of this status is. ``name`` is what was asked for."""
    told = f"{status} {code}".strip()
    wait_s = headers.retry_after_s(sent.get("Retry-After"), sent.get("Date"))
    if status in (401, 403):
        return _login(name, told, has_login=has_login)
    if code in ("MANIFEST_BLOB_UNKNOWN", "BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID"):
        return RegistryUnreachable(name, f"the registry lost what it had been sent ({told})")
    if status == 404 and is_write:
        return RegistryRefused(name, f"the registry has no such repository ({told})")
    if status == 404:
        return ImageMissing(name, f"the registry has no such thing ({told})")
    if status == 429 or (status == 503 and wait_s is not None):
        patience = "for a while" if wait_s is None else f"for {wait_s:g} s"
        sentence = f"the registry asks to be left alone {patience} ({told})"
        return RegistryBusy(name, sentence, retry_after_s=wait_s)
    if status >= 500:
        return RegistryUnreachable(name, f"the registry is out of order ({told})")
    if code in ("DIGEST_INVALID", "SIZE_INVALID"):
        return Corrupt(name, f"other bytes arrived than were sent ({told})")
    return RegistryRefused(name, f"the registry will not do it ({told})")


def _login(name: str, told: str, *, has_login: bool) -> RegistryError:
    if has_login:
        return LoginRefused(name, f"the registry refuses the login that it was given ({told})")
    return LoginRefused(name, f"the registry wants a login, and none is configured ({told})")
