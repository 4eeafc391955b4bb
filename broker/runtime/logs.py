"""Structured logs on standard error: one line an entry, logfmt for people or JSON for programs.

The rule: what varies goes into ``extra`` fields, never into the sentence; env values, secrets and
file contents are not logged at all. Read ``set_up`` first.
"""

import datetime
import json
import logging
import sys
from typing import Literal

Format = Literal["logfmt", "json"]
Level = Literal["debug", "info", "warning", "error"]
VALUE_MAX = 2_000  # characters of one field: a hostile cluster cannot flood the log
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(level: Level, form: Format) -> None:
    """Send everything that is logged to standard error in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _LogfmtFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _fields(record: logging.LogRecord) -> dict[str, object]:
    wall = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
    fields: dict[str, object] = {
        "time": wall.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "room": record.name,
        "message": record.getMessage(),
    }
    fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if record.exc_info:
        fields["trace"] = logging.Formatter().formatException(record.exc_info)
    return fields


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({k: _plain(v) for k, v in _fields(record).items()}, ensure_ascii=False)


class _LogfmtFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in _fields(record).items())


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)[:VALUE_MAX]


def _quoted(value: object) -> str:
    text = str(_plain(value))
    if text and all(c.isalnum() or c in "-_.:/+@" for c in text):
        return text
    return json.dumps(text, ensure_ascii=False)
