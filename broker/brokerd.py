"""The program ``brokerd``: sees that what it needs is installed, then hands over to ``daemon``.

The rule: it imports nothing but the standard library, for the client installs without the daemon's
packages and has this program all the same. Read ``main``.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

USAGE = 2
# What the extra `daemon` brings; a test holds it against pyproject.toml.
NEEDED = (
    "aiohttp",
    "google_crc32c",
    "grpc_health",
    "grpc_reflection",
    "kubernetes",
    "msgspec",
    "prometheus_client",
    "sqlite_utils",
    "uvloop",
    "yarl",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run brokerd; return the exit status. Without the daemon's packages, say how to get them."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            "brokerd: only the client is installed here, without what the daemon needs"
            f" ({', '.join(missing)}): pip install '.[daemon]' in a checkout,"
            " or pip install 'capacity-broker[daemon]'\n"
        )
        return USAGE
    from broker import daemon

    return daemon.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
