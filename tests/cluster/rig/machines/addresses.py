"""Loopback addresses for pods, and what the names of a gang's pods stand for.

The rule: every pod of the machine has an address of its own in 127.n.0.0/16, so that two gangs may
use the same port. There is no name server: the names that a headless service would publish are
replaced by addresses where a process is told them (its arguments and environment).
Read ``Addresses``.
"""

from __future__ import annotations

import re

HOSTS = 254 * 254


class Addresses:
    """The addresses of one region, given out by name, each for as long as this process lives."""

    def __init__(self, network: int) -> None:
        self._network = network
        self._given: dict[tuple[str, str], str] = {}

    def of(self, namespace: str, name: str) -> str:
        """Return the address of a host name (or of a pod without one) in a namespace."""
        key = (namespace, name)
        if key not in self._given:
            number = len(self._given) % HOSTS
            self._given[key] = f"127.{self._network}.{number // 254}.{number % 254 + 1}"
        return self._given[key]

    def of_pod(self, namespace: str, name: str, hostname: str, subdomain: str) -> str:
        """Return the address of a pod: that of its name in the headless service, if it has one."""
        return self.of(namespace, f"{hostname or name}.{subdomain}" if subdomain else name)

    def resolve(self, text: str, namespace: str, subdomain: str) -> str:
        """Replace the names of a subdomain's pods in a text by their addresses."""
        if not subdomain or f".{subdomain}" not in text:
            return text
        pattern = (
            r"(?<![\w.-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\."
            + re.escape(subdomain)
            + rf"(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local\.?)?)?)?(?![\w-]|\.\w)"
        )
        return re.sub(pattern, lambda m: self.of(namespace, f"{m[1]}.{subdomain}"), text)
