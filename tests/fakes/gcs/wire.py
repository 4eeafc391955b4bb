"""Requests and answers of the fake as bytes: bodies, multipart, and connections that are cut.

The rule: an answer goes out in one piece, and a cut connection is really cut.
"""

from __future__ import annotations

import email
import email.policy
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any


@dataclass
class Answer:
    """What goes back: a status, a body, and headers beside its length."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def json_answer(value: dict[str, Any], status: int = 200) -> Answer:
    """Answer with a resource."""
    body = json.dumps(value).encode()
    return Answer(status, body, {"Content-Type": "application/json; charset=UTF-8"})


def read_body(door: BaseHTTPRequestHandler) -> bytes:
    """Read a request's body, of a known length or in chunks."""
    if door.headers.get("transfer-encoding", "").lower() != "chunked":
        return door.rfile.read(int(door.headers.get("content-length", 0)))
    pieces = []
    while size := int(door.rfile.readline().split(b";")[0], 16):
        pieces.append(door.rfile.read(size))
        door.rfile.readline()
    door.rfile.readline()
    return b"".join(pieces)


def multipart(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    """Take an upload of one request apart: what is said of the object, and its bytes."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    about, content = message.iter_parts()
    fields: dict[str, Any] = json.loads(about.get_content())
    fields.setdefault("contentType", content.get_content_type())
    # Not what the mail parser makes of it: bytes with line ends of their own stay as they are.
    boundary = b"--" + str(message.get_boundary()).encode()
    raw = body.split(boundary, 2)[2].partition(b"\r\n\r\n")[2]
    return fields, raw[: raw.rindex(b"\r\n" + boundary)]


def send(door: BaseHTTPRequestHandler, answer: Answer, *, is_half: bool) -> None:
    """Answer, whole or up to the middle of the body, where the connection is cut."""
    door.send_response(answer.status)
    for name, value in answer.headers.items():
        door.send_header(name, value)
    door.send_header("Content-Length", str(len(answer.body)))
    door.end_headers()
    door.wfile.write(answer.body[: len(answer.body) // 2] if is_half else answer.body)
    door.wfile.flush()
    if is_half:
        cut(door)


def cut(door: BaseHTTPRequestHandler) -> None:
    """End the connection without a word."""
    door.close_connection = True
    with suppress(OSError):
        door.connection.shutdown(socket.SHUT_RDWR)
