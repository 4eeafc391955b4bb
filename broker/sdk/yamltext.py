"""YAML as lists, maps and texts: what a text means is for its field to say.

The rule: no tag is followed, no text becomes a number or a truth by its looks, a key that is there
twice is refused, and the size of what aliases unfold to is bounded before anything is unfolded.
Read ``parse`` first.
"""

from typing import Any, TypeAlias

from broker.sdk.errors import IntentError

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"

TEXT_MAX_BYTES = 256 * 1024
NODES_MAX = 20_000
DEPTH_MAX = 32


def parse(data: bytes, source: str) -> Tree:
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
    return "" if root is None else _Unfolding(source).tree(root, 0)


class _Unfolding:
    """Turns nodes into values, and counts them: an alias counts each time it is used."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._count = 0

    def tree(self, node: Any, depth: int) -> Tree:
        self._count += 1
        if self._count > NODES_MAX:
            raise IntentError(self._source, f"holds more than {NODES_MAX} values")
        if depth > DEPTH_MAX:
            raise IntentError(self._source, f"is deeper than {DEPTH_MAX} levels")
        match node.id:
            case "scalar":
                return _text(node)
            case "sequence":
                return [self.tree(one, depth + 1) for one in node.value]
            case _:
                return self._map(node, depth)

    def _map(self, node: Any, depth: int) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise IntentError(self._source, f"line {line}: a key must be a text")
            if key.value in found:
                raise IntentError(self._source, f"line {line}: {key.value[:60]!r} is there twice")
            found[key.value] = self.tree(value, depth + 1)
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
