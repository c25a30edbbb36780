# SPDX-License-Identifier: Apache-2.0
"""An HTTP server whose answers are JSON, for tests of what asks the API of a service."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """One request."""

    path: str
    query: dict[str, str]
    headers: Mapping[str, str]


class JsonApi:
    """Serves ``answer`` in threads of its own.

    :param answer: request -> status and document, or the bytes of one.
    """

    def __init__(self, answer: Callable[[Asked], tuple[int, Any]]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        """All requests so far."""
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = Asked(parts.path, dict(parse_qsl(parts.query)), dict(self.headers))
                api.asked.append(asked)
                status, document = api.answer(asked)
                body = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
