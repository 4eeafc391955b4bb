"""Page tokens: where a list goes on, bound to the very list it belongs to.

The rule: a token is opaque to the client and hostile to us. It holds the digest of the request it
was made for, so that it cannot carry on another list. Read ``token_of`` first.
"""

import base64
import binascii
import hashlib
import json
import math

from broker.service.errors import invalid

TOKEN_MAX = 2_000

Cursor = tuple[str | int | float, ...]


def token_of(cursor: Cursor | None, *request: str) -> str:
    """Return the token that goes on after ``cursor`` in the list of ``request``; "" for None."""
    if cursor is None:
        return ""
    text = json.dumps([_digest(request), *cursor], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def cursor_of(token: str, kinds: tuple[type, ...], *request: str) -> Cursor | None:
    """Return the cursor of a token, whose parts are of ``kinds``; None for "".

    Raises InvalidArgument for a token that this server did not give for this request.
    """
    if not token:
        return None
    if len(token) > TOKEN_MAX:
        raise _not_ours()
    try:
        parts = json.loads(base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise _not_ours() from error
    if not isinstance(parts, list) or len(parts) != len(kinds) + 1 or parts[0] != _digest(request):
        raise _not_ours()
    cursor = tuple(parts[1:])
    for part, kind in zip(cursor, kinds, strict=True):
        if type(part) is not kind or (isinstance(part, float) and not math.isfinite(part)):
            raise _not_ours()
    return cursor


def _not_ours() -> Exception:
    return invalid("page_token", "is no token of this server for this very list")


def _digest(request: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()[:16]
