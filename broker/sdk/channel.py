"""How a channel to the broker is set up, for both clients."""

from broker.sdk.settings import Settings

USER_KEY = "broker-user"
MESSAGE_MAX_BYTES = 4 * 1024 * 1024  # as the server's

# A broker that is started again is heard within a second, where gRPC's own pause grows to minutes.
OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
    # A machine's proxy is not for a daemon of the same machine.
    ("grpc.enable_http_proxy", 0),
)


def metadata(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return what goes with every call: in whose name it is made."""
    return ((USER_KEY, settings.user),)
