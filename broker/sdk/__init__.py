"""The client library: speaks only the wire."""
