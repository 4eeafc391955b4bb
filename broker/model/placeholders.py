"""The ``${NAME}`` that are left in a text.

The rule: the client fills in what its user's environment holds; what is left must be a name that
exists where the command runs. ``$${`` is a literal ``${``.
"""

import re
from collections.abc import Iterator

_PLACEHOLDER = re.compile(r"\$\$|\$\{([^}]*)(\}?)")


def unfilled(text: str) -> Iterator[str]:
    """Yield the name of each placeholder in order; empty for one that is not closed."""
    for match in _PLACEHOLDER.finditer(text):
        if match.group(1) is not None:
            yield match.group(1) if match.group(2) else ""
