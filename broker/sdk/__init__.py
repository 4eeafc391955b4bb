"""The client library: speaks only the wire.

    from broker.sdk import Client, Watch, load_intent, pack

    with Client() as client:
        intent = load_intent("intent.yaml").message
        with pack(".") as bundle:
            intent.workload.bundle_digest = client.runs.upload_bundle("vision", bundle).digest
        run = client.runs.submit("vision", intent)

``AsyncClient`` is the same for an event loop. ``broker.sdk.training`` is for the training side and
is independent of all this: nothing here is loaded before it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.sdk.aio import AsyncClient
    from broker.sdk.bundle import Bundle, pack
    from broker.sdk.errors import BrokerError
    from broker.sdk.intent import IntentFile, load_intent
    from broker.sdk.plain import Client
    from broker.sdk.settings import Settings, find
    from broker.sdk.streams import Fetch, Tail, Watch

__all__ = [
    "AsyncClient",
    "BrokerError",
    "Bundle",
    "Client",
    "Fetch",
    "IntentFile",
    "Settings",
    "Tail",
    "Watch",
    "find",
    "load_intent",
    "pack",
]

_HOMES = {
    "AsyncClient": "aio",
    "BrokerError": "errors",
    "Bundle": "bundle",
    "Client": "plain",
    "Fetch": "streams",
    "IntentFile": "intent",
    "Settings": "settings",
    "Tail": "streams",
    "Watch": "streams",
    "find": "settings",
    "load_intent": "intent",
    "pack": "bundle",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"broker.sdk.{_HOMES[name]}"), name)
