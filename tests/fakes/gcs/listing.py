"""A listing of a bucket, page by page, as the API gives it."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from tests.fakes.gcs.cloud import Bucket, resource

PAGE = 1000


def page_of(bucket: Bucket, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page: objects and, with a delimiter, what is common to those behind it.

    Names are ordered by their bytes. The token is the last name or prefix that was given.
    """
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    start, end = query.get("startOffset", "").encode(), query.get("endOffset", "").encode()
    limit = min(PAGE, int(query.get("maxResults", PAGE)))
    seen: dict[str, str | None] = {}
    for name in sorted(bucket.objects, key=lambda one: one.encode()):
        is_between = start <= name.encode() and (not end or name.encode() < end)
        if not name.startswith(prefix) or not is_between:
            continue
        head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        seen.setdefault(prefix + head + found if found else name, None if found else name)
    after = query.get("pageToken", "").encode()
    rest = [entry for entry in seen.items() if entry[0].encode() > after]
    given = list(islice(rest, limit))
    page: dict[str, Any] = {
        "kind": "storage#objects",
        "items": [
            resource(bucket.name, name, bucket.objects[name])
            for _, name in given
            if name is not None
        ],
        "prefixes": [key for key, name in given if name is None],
    }
    if len(rest) > limit:
        page["nextPageToken"] = given[-1][0]
    return page
