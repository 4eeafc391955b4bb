"""Values as YAML that people write back.

Read ``dumped`` first.
"""

from typing import Any


def dumped(value: dict[str, Any]) -> str:
    """Return a map as YAML, its fields in the proto's order."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))
