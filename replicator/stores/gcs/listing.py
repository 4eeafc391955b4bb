"""What lies under a prefix of a bucket, page by page. Read ``listed``."""

from collections.abc import Generator
from dataclasses import dataclass

from google.cloud import storage

from replicator.errors import TooLarge
from replicator.stores.gcs.objects import Objects, entry_of
from replicator.stores.port import MAX_LISTED, Entry

_FIELDS = "items(name,generation,size,timeCreated,crc32c),nextPageToken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What a mount or a console leaves where it shows a folder: an empty object named so."""

    name: str
    generation: int


def listed(objects: Objects, prefix: str) -> Generator[Entry | Folder, None, None]:
    """Yield all that lies under a prefix. Raises TooLarge, and Missing when there is no bucket."""
    count, token = 0, ""
    while True:
        blobs, token = _page(objects, prefix, token)
        for blob in blobs:
            count += 1
            if count > MAX_LISTED:
                raise TooLarge(prefix, f"more than {MAX_LISTED} objects")
            name = blob.name.removeprefix(objects.location.folder)
            if name.endswith("/") and not blob.size:
                yield Folder(name=name, generation=int(blob.generation))
            else:
                yield entry_of(name, blob)
        if not token:
            return


def _page(objects: Objects, prefix: str, token: str) -> tuple[list[storage.Blob], str]:
    def once() -> tuple[list[storage.Blob], str]:
        pages = objects.access.client.list_blobs(
            objects.location.bucket,
            prefix=objects.location.key(prefix),
            page_token=token or None,
            fields=_FIELDS,
            timeout=objects.caller.patience.timeout,
            retry=None,
        )
        page = next(pages.pages)
        return list(page), pages.next_page_token or ""

    return objects.caller.ask(prefix, once)
