"""A fake that speaks HTTP, on a port of loopback and in threads of its own.

The rule: it ends with its ``with``, whatever its clients still wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def threaded(handler: type[BaseHTTPRequestHandler], name: str) -> Iterator[str]:
    """Serve a handler; yield the address to ask, without a slash at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name=name)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
