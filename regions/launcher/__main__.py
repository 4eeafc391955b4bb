"""``python launcher.pyz -- command args…``: reads the environment, launches, exits.

The rule: what is wrong with the configuration is said in one sentence on stderr, and by a status of
its own. See ``settings`` for what the environment must say, and ``exits`` for the statuses.
"""

from __future__ import annotations

import os
import sys
from typing import List

from regions.launcher.exits import BAD_CONFIGURATION
from regions.launcher.process import launch
from regions.launcher.settings import BadSettings, read_settings


def main(arguments: List[str]) -> int:
    """Run the launcher with the command that follows ``--``, and return its exit status."""
    command = tuple(arguments[1:] if arguments[:1] == ["--"] else arguments)
    try:
        return launch(read_settings(os.environ, command))
    except BadSettings as error:
        sys.stderr.write(f"launcher: {error}\n")
        return BAD_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
