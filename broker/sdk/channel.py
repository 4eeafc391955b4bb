"""How a channel to the broker is set up, for both clients."""

from typing import Any

import grpc

from broker.sdk.settings import Settings

USER_KEY = "broker-user"
TOKEN_KEY = "authorization"
MESSAGE_MAX_BYTES = 4 * 1024 * 1024  # as the server's

# A broker that is started again is heard within a second, where gRPC's own pause grows to minutes.
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
)
# A machine's proxy is not for a daemon of the same machine.
NEAR = (*OPTIONS, ("grpc.enable_http_proxy", 0))
# A connection that a router forgot, or a laptop slept through, is noticed while somebody watches.
FAR = (*OPTIONS, ("grpc.keepalive_time_ms", 30_000), ("grpc.keepalive_timeout_ms", 20_000))


def opened(settings: Settings, kind: Any) -> Any:
    """Return a channel; ``kind`` is ``grpc`` or ``grpc.aio``."""
    access = settings.access
    if access is None:
        return kind.insecure_channel(settings.server, NEAR)
    credentials = grpc.ssl_channel_credentials(access.ca, access.key, access.certificate)
    return kind.secure_channel(settings.server, credentials, FAR)


def metadata(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return what goes with a call: in whose name it is made, and the token that proves it."""
    word = "" if settings.access is None else settings.access.word()
    stamp = ((TOKEN_KEY, f"Bearer {word}"),) if word else ()
    return ((USER_KEY, settings.user), *stamp)
