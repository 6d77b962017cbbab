"""A server on loopback that answers in a gateway's place."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

_Server = TypeVar("_Server", bound=ThreadingHTTPServer)


@contextlib.contextmanager
def serving(server: _Server) -> Iterator[_Server]:
    """``server``, which answers until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class QuietHandler(BaseHTTPRequestHandler):
    """Sends bodies and writes no log."""

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """An answer, whose length is that of ``body`` unless a header says otherwise."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "content_length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""
