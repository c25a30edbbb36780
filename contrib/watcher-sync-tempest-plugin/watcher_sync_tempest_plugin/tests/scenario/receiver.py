# SPDX-License-Identifier: Apache-2.0
"""An HTTP server in a thread that records the deliveries of a subscription."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Listens on a free port of all addresses, and answers 204."""

    def __init__(self) -> None:
        # Appended by the threads of the server; a test reads a copy.
        deliveries: list[dict[str, Any]] = []
        self._deliveries = deliveries

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                deliveries.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Tempest logs the requests of the tests alone."""

        self._server = ThreadingHTTPServer(("", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, host: str) -> str:
        """The callback for an outlet that reaches this machine at the host."""
        return f"http://{host}:{self._server.server_port}/changes"

    def delivery_with(self, state: str) -> dict[str, Any] | None:
        """The first delivery that has a resource in this state."""
        for delivery in list(self._deliveries):
            resources = [one for some in delivery["resource-changes"].values() for one in some]
            if any(one.get("status", {}).get("state") == state for one in resources):
                return delivery
        return None

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
