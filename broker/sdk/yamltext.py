"""YAML as lists, maps and texts: what a text means is for its field to say.

The rule: no tag is followed, no text becomes a number or a truth by its looks, a key that is there
twice is refused, and the size of what aliases unfold to is bounded before anything is unfolded.
Read ``parse`` first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from broker.sdk.errors import IntentError, Violation

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"

TEXT_MAX_BYTES = 256 * 1024
NODES_MAX = 20_000
DEPTH_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a text holds, and on which line each of its values begins, by the value's path."""

    source: str
    tree: Tree
    lines: Mapping[str, int]

    @contextmanager
    def naming_lines(self, prefix: str = "") -> Iterator[None]:
        """Add the file and the line to each field of an IntentError that a block raises.

        ``prefix`` is what such a field's path begins with and the document's own paths do not.
        """
        try:
            yield
        except IntentError as error:
            raise IntentError.of(self._located(one, prefix) for one in error.violations) from error

    def _located(self, violation: Violation, prefix: str) -> Violation:
        line = self._line(violation.field.removeprefix(prefix))
        if line is None:
            return violation
        return Violation(
            field=violation.field, message=f"{violation.message} ({self.source}, line {line})"
        )

    def _line(self, path: str) -> int | None:
        """Return the line of a path, or of the nearest that holds it and was written down."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return None


def parse(data: bytes, source: str) -> Document:
    """Return the one document of a text; "" for an empty one. Raises IntentError with the line."""
    if len(data) > TEXT_MAX_BYTES:
        raise IntentError(source, f"has {len(data)} bytes; the most is {TEXT_MAX_BYTES}")
    # Only a file needs it: a start without one is spared its import.
    import yaml

    try:
        text = data.decode("utf-8-sig")
        # It composes nodes and constructs nothing: no tag can do harm.
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except UnicodeDecodeError as error:
        raise IntentError(source, "is not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        raise IntentError(source, _in_words(error, text)) from error
    except yaml.YAMLError as error:
        raise IntentError(source, f"is not YAML: {error}") from error
    except RecursionError as error:
        raise IntentError(source, f"is deeper than {DEPTH_MAX} levels") from error
    unfolding = _Unfolding(source)
    tree = "" if root is None else unfolding.tree(root, "", 0)
    return Document(source=source, tree=tree, lines=unfolding.lines)


class _Unfolding:
    """Turns nodes into values, and counts them: an alias counts each time it is used."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0
        self.lines: dict[str, int] = {}

    def tree(self, node: Any, path: str, depth: int) -> Tree:
        self._count += 1
        # Where an alias is used its text is elsewhere, and that is the line to change.
        self.lines[path] = node.start_mark.line + 1
        if self._count > NODES_MAX:
            raise IntentError(self._source, f"holds more than {NODES_MAX} values")
        if depth > DEPTH_MAX:
            raise IntentError(self._source, f"is deeper than {DEPTH_MAX} levels")
        match node.id:
            case "scalar":
                return _text(node)
            case "sequence":
                return [
                    self.tree(one, f"{path}[{i}]", depth + 1) for i, one in enumerate(node.value)
                ]
            case _:
                return self._map(node, path, depth)

    def _map(self, node: Any, path: str, depth: int) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise IntentError(self._source, f"line {line}: a key must be a text")
            if not key.value:
                # What it holds would have no name to be called by in a refusal.
                raise IntentError(self._source, f"line {line}: a key is empty")
            if key.value in found:
                raise IntentError(self._source, f"line {line}: {key.value[:60]!r} is there twice")
            at = f"{path}.{key.value}" if path else key.value
            found[key.value] = self.tree(value, at, depth + 1)
            self.lines[at] = line
        return found


def _in_words(error: Any, text: str) -> str:
    mark = error.problem_mark
    if mark is None:
        return f"is not YAML: {error.problem}"
    lines = text.splitlines()
    has_variable = mark.line < len(lines) and "${" in lines[mark.line]
    hint = "; within { } or [ ] a ${VAR} needs quotes" if has_variable else ""
    return f"line {mark.line + 1}: is not YAML: {error.problem}{hint}"


def _text(node: Any) -> str:
    is_plain = node.style is None
    return "" if is_plain and node.value in ("~", "null", "Null", "NULL") else str(node.value)
