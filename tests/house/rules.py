"""The measurable rules, each a function from a file's path and text to what is wrong with it.

The rule it keeps: a finding is one sentence that names the line, so that it can be mended without
reading this file. `RULES` at the end is the list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

Rule = Callable[[str, str], list[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef

OLDEST = (3, 11)
MODULE_LINES = 400
FUNCTION_LINES = 70
POSITIONAL_PARAMETERS = 5
PURE = ("broker/model/", "broker/history/", "broker/placement/", "broker/policy/")

# What belongs to the making of the project, and not to the project.
PRIVATE_WORDS = re.compile(
    r"(?<![\w.:/-])/(?:work|root)/|/tmp/(?:brief)"
    r"|\b(?:issue|ticket|PR) ?#\d+"
    r"|\b(?:TOD[O]|FIXM[E]|XX[X])\b"
    r"|\bpypi\.org|\bpython(?:hosted)\b"
)
SKIPS = re.compile(r"(?:mark|pytest)\.(?:skip|skipif|xfail|importorskip)")
SEEMS_TO_ASSERT = re.compile(r"assert|check|expect|verify|raises|run|suite|law", re.IGNORECASE)


def is_python(path: str, text: str) -> list[str]:
    """A module is of the oldest Python that the project supports."""
    try:
        ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    return []


def module_size(path: str, text: str) -> list[str]:
    """A module has at most 400 lines."""
    lines = text.count("\n")
    return [f"{path}: {lines} lines, a room that wants dividing"] if lines > MODULE_LINES else []


def function_size(path: str, text: str) -> list[str]:
    """A function has at most 70 lines."""
    sizes = ((f, (f.end_lineno or f.lineno) - f.lineno + 1) for f in functions(text))
    return [
        f"{path}:{f.lineno}: {f.name} has {size} lines"
        for f, size in sizes
        if size > FUNCTION_LINES
    ]


def positional_parameters(path: str, text: str) -> list[str]:
    """A function takes at most five positional parameters, self aside."""
    findings = []
    for function in functions(text):
        names = [a.arg for a in function.args.posonlyargs + function.args.args]
        taken = len([name for name in names if name not in {"self", "cls"}])
        if taken > POSITIONAL_PARAMETERS and not is_test(path, function):
            findings.append(f"{path}:{function.lineno}: {function.name} takes {taken} by position")
    return findings


def module_docstring(path: str, text: str) -> list[str]:
    """A module says what it is. Tests are named by their sentences and may do without."""
    if path.startswith("tests/") or ast.get_docstring(parsed(text)):
        return []
    return [f"{path}:1: no module docstring"]


def pure_clock(path: str, text: str) -> list[str]:
    """Pure packages are given now; they neither ask for it nor open files."""
    if not path.startswith(PURE):
        return []
    asked = {"now", "utcnow", "today"}
    return [
        f"{path}:{call.lineno}: {ast.unparse(call.func)}() in a pure package"
        for call in calls(text)
        if (isinstance(call.func, ast.Attribute) and call.func.attr in asked and not call.args)
        or (isinstance(call.func, ast.Name) and call.func.id in {"open", "input", "id", "hash"})
    ]


def no_mock(path: str, text: str) -> list[str]:
    """Our own code is never mocked; fakes stand at ports."""
    return [
        f"{path}:{line}: imports {name}"
        for line, name in imports(text)
        if root_of(name) == "mock" or name.startswith("unittest.mock")
    ]


def no_skip(path: str, text: str) -> list[str]:
    """A test runs or does not exist."""
    if not path.startswith("tests/"):
        return []
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute) and SKIPS.search(ast.unparse(node))
    ]


def no_stub(path: str, text: str) -> list[str]:
    """What is not there yet is not promised."""
    return [
        f"{path}:{node.lineno}: raises {ast.unparse(node.exc)}"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Raise) and node.exc and "NotImpl" in ast.unparse(node.exc)
    ]


def test_can_fail(path: str, text: str) -> list[str]:
    """A test has an assertion that can be seen, its own or that of a function named for it."""
    return [
        f"{path}:{function.lineno}: {function.name} asserts nothing that can be seen"
        for function in functions(text)
        if is_test(path, function) and not any(asserts(node) for node in ast.walk(function))
    ]


def private_words(path: str, text: str) -> list[str]:
    """The project speaks of itself alone: no path of one machine, no ticket, no host, no to-do."""
    return [
        f"{path}:{at}: {found.group()!r}"
        for at, line in numbered(text)
        if (found := PRIVATE_WORDS.search(line))
    ]


@cache
def parsed(text: str) -> ast.Module:
    """Returns the tree of a text, empty when it does not parse, which is a finding of its own."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def functions(text: str) -> Iterator[Function]:
    """Yields every function, methods and inner ones too."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, Function):
            yield node


def calls(text: str) -> Iterator[ast.Call]:
    """Yields every call."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Call):
            yield node


def imports(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line and full name of every absolute import, wherever it stands."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def root_of(name: str) -> str:
    """Returns the top package of an imported name."""
    return name.split(".", maxsplit=1)[0]


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines with their numbers, from 1."""
    return enumerate(text.splitlines(), 1)


def is_test(path: str, function: Function) -> bool:
    """Whether pytest collects this function."""
    name = path.rsplit("/", 1)[-1]
    return name.startswith("test_") and function.name.startswith("test_")


def asserts(node: ast.AST) -> bool:
    """Whether this node can make a test fail on purpose."""
    if isinstance(node, ast.Call):
        return bool(SEEMS_TO_ASSERT.search(ast.unparse(node.func)))
    return isinstance(node, ast.Assert)


PYTHON_RULES: dict[str, Rule] = {
    "a module is Python 3.11": is_python,
    "a module has at most 400 lines": module_size,
    "a function has at most 70 lines": function_size,
    "at most five parameters are positional": positional_parameters,
    "a module says what it is": module_docstring,
    "pure packages ask no clock and open no file": pure_clock,
    "our own code is never mocked": no_mock,
    "no test is skipped or expected to fail": no_skip,
    "what is not there yet is not promised": no_stub,
    "every test can fail": test_can_fail,
}
TEXT_RULES: dict[str, Rule] = {
    "the project speaks of itself alone": private_words,
}
RULES = PYTHON_RULES | TEXT_RULES
