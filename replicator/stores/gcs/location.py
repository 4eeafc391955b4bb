"""Where a store is: ``gs://bucket/prefix``. Pure. Read ``read_location``."""

import re
from dataclasses import dataclass

from replicator.errors import NameRefused
from replicator.stores.names import MAX_NAME_BYTES, checked

SCHEME = "gs://"
# Of a plain bucket, and of one that is named as a domain.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A bucket, and the folder in it: empty, or ending in a slash."""

    bucket: str
    folder: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.folder}"

    def key(self, name: str) -> str:
        """Return the object's name in the bucket. Raises NameRefused when it is too long there."""
        key = self.folder + name
        if len(key.encode("utf-8")) > MAX_NAME_BYTES:
            raise NameRefused(name, f"with its store's folder it exceeds {MAX_NAME_BYTES} bytes")
        return key


def read_location(text: str) -> Location:
    """Read ``gs://bucket``, ``gs://bucket/a/b`` or ``gs://bucket/a/b/``. Raises NameRefused."""
    bucket, _, folder = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not _BUCKET.fullmatch(bucket):
        raise NameRefused(repr(text[:200]), f"not {SCHEME}, a bucket's name, and a folder in it")
    folder = folder.removesuffix("/")
    return Location(bucket=bucket, folder=checked(folder) + "/" if folder else "")
