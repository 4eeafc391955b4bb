"""``python -m broker.cli``: the program, without its entry point."""

import sys

from broker.cli.main import main

sys.exit(main())
