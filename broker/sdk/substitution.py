"""``${VAR}`` in an intent, filled in from the environment of whoever submits it.

The rule: a variable that is not there is an error that names it; ``$${`` stays a literal ``${``;
and the names that are known only where the process runs are left in its command and environment as
they are. Read ``fill_in`` first.
"""

import re
from collections.abc import Mapping

RUN_TIME_NAMES = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
RUN_TIME_PREFIX = "BROKER_"
TEXT_MAX = 64 * 1024  # characters, once filled in
_PLACE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_run_time(name: str) -> bool:
    """Whether a name is known only where the process runs."""
    return name in RUN_TIME_NAMES or name.startswith(RUN_TIME_PREFIX)


def fill_in(text: str, variables: Mapping[str, str], *, is_run: bool = False) -> str:
    """Return the text with its variables filled in. Raises ValueError that names what is wrong.

    What a variable holds is taken as it is: it is not looked into for variables. ``is_run`` says
    that the text is filled in once more where the process runs, so what is literal stays escaped.
    """
    if "${" not in text:
        return text
    literal = "$${" if is_run else "${"

    def value(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return literal
        name = match.group(1)
        if not match.group(2) or not _NAME.fullmatch(name):
            raise ValueError(f"{match.group()[:40]!r} is not a variable such as ${{HOME}}")
        if is_run and is_run_time(name):
            return match.group()
        if name not in variables:
            raise ValueError(f"the variable {name} is not set; `$${{{name}}}` is the literal text")
        return variables[name].replace("${", literal)

    filled = _PLACE.sub(value, text)
    if len(filled) > TEXT_MAX:
        raise ValueError(f"has {len(filled)} characters once filled in; the most is {TEXT_MAX}")
    return filled
