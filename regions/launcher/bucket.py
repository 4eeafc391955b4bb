"""A folder of a bucket of Google's as a store: the five calls, with what Python brings.

The rule: as in ``store``, an answer is an answer. A key is absent only when the store's marker was
seen after the miss, as a bucket that is gone answers like a key that is absent. Create-if-absent is
"if generation is 0"; after an answer that was lost it is known by a word in the object's metadata
whether the one that is there is ours. A call is sent again for some seconds and no longer: who
calls has a command to look after, and looks again soon. Read ``BucketStore.create_if_absent``
first. Imported only where a store is a bucket, for it takes more of Python along.
"""

from __future__ import annotations

import json
import random
import time
from io import BufferedReader
from typing import Any, BinaryIO, Dict, List, Mapping, Optional, Tuple, cast
from urllib.parse import quote, urlencode

from regions.launcher.store import (
    GS,
    MARKER,
    SCRATCH,
    InvalidKey,
    StoreUnreachable,
    check_key,
    random_hex,
)
from regions.launcher.tokens import NoToken, TokenSource
from regions.launcher.wire import Answer, Wire

ENDPOINT = "https://storage.googleapis.com"
CALL_S = 5.0
"""How long a launcher's call goes on. It has a command to look after between two of them."""
WAIT_S = 3.0
"""How long one attempt waits for each next byte."""
FIRST_PAUSE_S = 0.2
WORD = "broker-write"
MAX_PAGES = 200
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_ABSENT, _UNMET, _UNKNOWN = 404, 412, 401


class BucketStore:
    """A Store in ``gs://bucket/folder``. Threads may share it. ``call_s`` is how long a call is
    sent again while it gets no answer that says something."""

    def __init__(self, location: str, tokens: TokenSource, endpoint: str, call_s: float) -> None:
        self.location = location
        bucket, _, folder = location[len(GS) :].partition("/")
        self._folder = folder + "/" if folder else ""
        self._objects = f"/storage/v1/b/{bucket}/o"
        self._uploads = f"/upload/storage/v1/b/{bucket}/o"
        self._tokens = tokens
        self._wire = Wire(endpoint)
        self._call_s = call_s
        self._is_marked = False

    def get(self, key: str) -> Optional[BinaryIO]:
        """Open what the key holds; see Store."""
        check_key(key)
        answer = self._call("GET", self._path(key, alt="media"))
        if answer.status == _ABSENT:
            answer.close()
            self._require_marker()
            return None
        self._expect(key, answer, 200)
        return cast(BinaryIO, BufferedReader(answer))

    def create_if_absent(self, key: str, data: bytes) -> bool:
        """Write once; see Store. Generation 0 decides, and the word says whose it is."""
        check_key(key)
        self._require_marked_once()
        return self._create(key, data)

    def put(self, key: str, data: bytes) -> None:
        """Write over; see Store. A beat, which is followed by the next: it is sent once."""
        check_key(key)
        self._require_marked_once()
        body, headers = _multipart(self._folder + key, data, {})
        path = f"{self._uploads}?{urlencode({'uploadType': 'multipart'})}"
        answer = self._call("POST", path, headers, body, is_repeated=False)
        self._expect(key, answer, 200)
        answer.close()

    def list(self, prefix: str) -> Tuple[str, ...]:
        """Name what is directly under the prefix; see Store."""
        if prefix:
            if not prefix.endswith("/"):
                raise InvalidKey(f"not a prefix: {prefix[:200]!r}")
            check_key(prefix[:-1])
        names: List[str] = []
        token = ""
        for _ in range(MAX_PAGES):
            fields = "items(name),prefixes,nextPageToken"
            page = self._page(prefix, token, delimiter="/", fields=fields)
            names.extend(self._named(prefix, page))
            token = str(page.get("nextPageToken", ""))
            if not token:
                if not names:
                    self._require_marker()
                hidden = () if prefix else (MARKER, SCRATCH + "/")
                return tuple(sorted(name for name in names if name not in hidden))
        raise StoreUnreachable(f"{prefix}: more than {MAX_PAGES} pages")

    def page(self, prefix: str, start: str, token: str) -> Tuple[Dict[str, str], str]:
        """List a page of the keys under a prefix, however deep, from ``start`` on (empty: all).

        Returns generations by key, in order, and the token of the next page; empty: there is none.
        Raises StoreUnreachable. One call tells of many records, whose reads are a call each.
        """
        more = {"startOffset": self._folder + start} if start else {}
        fields = "items(name,generation),nextPageToken"
        page = self._page(prefix, token, fields=fields, **more)
        found = {}
        try:
            for one in page.get("items", ()):
                found[str(one["name"])[len(self._folder) :]] = str(one["generation"])
        except (TypeError, KeyError):
            raise StoreUnreachable(f"{prefix}: the answer is no listing") from None
        if not found and not start:
            self._require_marker()
        return found, str(page.get("nextPageToken", ""))

    def sizes(self, prefix: str) -> Dict[str, int]:
        """Measure what is under the prefix; see Measured."""
        check_key(prefix.rstrip("/"))
        start, token = len(self._folder + prefix), ""
        found: Dict[str, int] = {}
        for _ in range(MAX_PAGES):
            page = self._page(prefix, token, fields="items(name,size),nextPageToken")
            try:
                for one in page.get("items", ()):
                    found[str(one["name"])[start:]] = int(one["size"])
            except (TypeError, KeyError, ValueError):
                raise StoreUnreachable(f"{prefix}: the answer is no listing") from None
            token = str(page.get("nextPageToken", ""))
            if not token:
                if not found:
                    self._require_marker()
                return found
        raise StoreUnreachable(f"{prefix}: more than {MAX_PAGES} pages")

    def delete(self, key: str) -> None:
        """Remove; see Store."""
        check_key(key)
        answer = self._call("DELETE", self._path(key))
        if answer.status == _ABSENT:
            answer.close()
            self._require_marker()
            return
        self._expect(key, answer, 200, 204)
        answer.close()

    def create(self) -> None:
        """Make the folder a store, if it is none yet."""
        self._create(MARKER, b"")

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()
        self._tokens.close()

    def _create(self, key: str, data: bytes) -> bool:
        word = random_hex()
        body, headers = _multipart(self._folder + key, data, {WORD: word})
        path = f"{self._uploads}?{urlencode({'uploadType': 'multipart', 'ifGenerationMatch': '0'})}"
        answer = self._call("POST", path, headers, body)
        if answer.status == _UNMET:
            answer.close()
            return answer.is_repeat and self._word_of(key) == word
        self._expect(key, answer, 200)
        answer.close()
        return True

    def _word_of(self, key: str) -> str:
        """Return the word of whoever wrote what the key holds now; empty: nobody that has one."""
        answer = self._call("GET", self._path(key, fields="metadata"))
        if answer.status == _ABSENT:
            answer.close()
            return ""
        self._expect(key, answer, 200)
        metadata = _parsed(key, answer).get("metadata")
        return str(metadata.get(WORD, "")) if isinstance(metadata, dict) else ""

    def _require_marked_once(self) -> None:
        if not self._is_marked:
            self._require_marker()

    def _require_marker(self) -> None:
        answer = self._call("GET", self._path(MARKER, fields="name"))
        status = answer.status
        answer.close()
        if status != 200:
            raise StoreUnreachable(f"{self.location}: not a store, {MARKER} is {status}")
        self._is_marked = True

    def _page(self, prefix: str, token: str, **query: str) -> Dict[str, Any]:
        query["prefix"] = self._folder + prefix
        if token:
            query["pageToken"] = token
        answer = self._call("GET", f"{self._objects}?{urlencode(query)}")
        self._expect(prefix, answer, 200)
        return _parsed(prefix, answer)

    def _named(self, prefix: str, page: Mapping[str, Any]) -> List[str]:
        start = len(self._folder + prefix)
        try:
            found = [str(one["name"])[start:] for one in page.get("items", ())]
            found += [str(one)[start:] for one in page.get("prefixes", ())]
        except (TypeError, KeyError):
            raise StoreUnreachable(f"{prefix}: the answer is no listing") from None
        # An object of the folder's own name is what a mount leaves to show it.
        return [name for name in found if name]

    def _path(self, key: str, **query: str) -> str:
        path = f"{self._objects}/{quote(self._folder + key, safe='')}"
        return f"{path}?{urlencode(query)}" if query else path

    def _expect(self, key: str, answer: Answer, *statuses: int) -> None:
        if answer.status not in statuses:
            answer.close()
            raise StoreUnreachable(f"{key}: the store answers {answer.status}")

    def _call(
        self,
        method: str,
        path: str,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[bytes] = None,
        is_repeated: bool = True,
    ) -> Answer:
        """Send until there is an answer that says something. Raises StoreUnreachable.

        Its address may be long and is in no error. A token that is refused is replaced once.
        """
        until_s = time.monotonic() + self._call_s
        pause_s, may_renew, is_repeat = FIRST_PAUSE_S, True, False
        while True:
            try:
                token = self._tokens.token(WAIT_S)
                sent = {"Authorization": f"Bearer {token}", **(headers or {})}
                answer = self._wire.send(method, path, sent, body, WAIT_S)
                answer.is_repeat = is_repeat
                if answer.status == _UNKNOWN and may_renew:
                    answer.close()
                    self._tokens.drop(token)
                    may_renew = False
                    continue
                if answer.status not in _TRANSIENT:
                    return answer
                answer.close()
                why = f"the store answers {answer.status}"
            except NoToken as error:
                why = str(error)
            except OSError as error:
                why = f"no answer ({type(error).__name__})"
            is_repeat = True
            wait_s = pause_s * random.uniform(0.5, 1.0)
            if not is_repeated or time.monotonic() + wait_s >= until_s:
                raise StoreUnreachable(f"{self.location}: {why}")
            time.sleep(wait_s)
            pause_s *= 2


def _multipart(name: str, data: bytes, metadata: Mapping[str, str]) -> Tuple[bytes, Dict[str, str]]:
    """Return the body of an upload, with what is said of the object, and its headers."""
    said = {"name": name, "cacheControl": "no-store", "metadata": dict(metadata)}
    border = random_hex().encode()
    body = b"".join(
        (
            *(b"--", border, b"\r\nContent-Type: application/json\r\n\r\n"),
            *(json.dumps(said).encode(), b"\r\n--", border),
            *(b"\r\nContent-Type: application/octet-stream\r\n\r\n", data),
            *(b"\r\n--", border, b"--\r\n"),
        )
    )
    return body, {"Content-Type": f"multipart/related; boundary={border.decode()}"}


def _parsed(key: str, answer: Answer) -> Dict[str, Any]:
    try:
        told = json.loads(answer.whole())
    except (OSError, ValueError) as error:
        raise StoreUnreachable(f"{key}: {type(error).__name__} in the answer") from None
    if not isinstance(told, dict):
        raise StoreUnreachable(f"{key}: the answer is no object")
    return told
