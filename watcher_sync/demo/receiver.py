# SPDX-License-Identifier: Apache-2.0
"""A subscriber of the demo: receives webhooks, verifies them, and applies them to a view of its own.

The view begins with the answer of ``/v1/instance/{id}/status``. Each delivery changes it: what was created or modified
is put into it, and what was deleted is removed. A delivery that came before is confirmed and not applied again.

A delivery whose signature does not fit is answered with 401. The server has a thread per request. A lock guards what
was received. Standard library only, so that it can be read as an example.
"""

from __future__ import annotations

import collections
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from watcher_sync.extensions.webhooks.standard_webhooks import BadSignature, parse_secret, verify

_HOST: Final = "127.0.0.1"
_MAX_BODY_BYTES: Final = 8_388_608
_LINES: Final = 100
"""Lines that wait for the screen."""

Document = dict[str, Any]
View = dict[tuple[str, str], Document]
"""(kind, id) of a resource -> its document."""


class Received:
    """What one subscription delivered."""

    def __init__(self, secret: str) -> None:
        """:param secret: ``whsec_`` and base64, as the API got it."""
        self.secret = parse_secret(secret)
        self.view: View = {}
        self.deliveries = 0
        self.refused = ""
        """Why the last delivery that was not accepted was refused; empty: none was."""
        self.ids: set[str] = set()

    def begin(self, resources: Iterable[Document]) -> None:
        """Put what exists into the view, except what a delivery has already written."""
        for document in resources:
            self.view.setdefault(_key(document), document)

    def apply(self, body: Mapping[str, Any]) -> None:
        """Apply a delivery. One with ``resync`` has all resources, and replaces the view."""
        changes = body["resource-changes"]
        if "resync" in body:
            self.view.clear()
        for document in (*changes["created"], *changes["modified"]):
            self.view[_key(document)] = document
        for document in changes["deleted"]:
            self.view.pop(_key(document), None)


class Receiver:
    """An HTTP server on the loopback interface, with a path for each subscription."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """:param now: seconds since 1970."""
        self._now = now
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._received: dict[str, Received] = {}
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        receiver = self

        class ReceiverHandler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self) -> None:
                """A delivery."""
                size = int(self.headers.get("Content-Length") or 0)
                if size > _MAX_BODY_BYTES:
                    self._answer(413)
                    return
                self._answer(receiver.take(self.path.strip("/"), dict(self.headers), self.rfile.read(size)))

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                if status == 413:
                    self.close_connection = True
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """The demo prints a line for each delivery."""

        self._server = http.server.ThreadingHTTPServer((_HOST, 0), ReceiverHandler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._serve, name="webhook-receiver", daemon=True)
        self.url = f"http://{_HOST}:{self._server.server_port}"

    def start(self) -> None:
        """Answer requests; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def expect(self, name: str, secret: str) -> str:
        """Accept deliveries of a subscription from now on. Return the URL for them."""
        with self._lock:
            self._received[name] = Received(secret)
        return f"{self.url}/{name}"

    def begin(self, name: str, resources: Iterable[Document]) -> None:
        """Tell what the instance consisted of when the subscription existed already."""
        with self._lock:
            self._received[name].begin(resources)

    def view(self, name: str) -> View:
        """A copy of the view of a subscription."""
        with self._lock:
            return dict(self._received[name].view)

    def deliveries(self, name: str) -> int:
        """How many different deliveries were accepted."""
        with self._lock:
            return self._received[name].deliveries

    def refused(self, name: str) -> str:
        """Why a delivery was refused; empty: none was."""
        with self._lock:
            return self._received[name].refused

    def take_lines(self) -> list[str]:
        """A line for each delivery since the last call."""
        with self._lock:
            lines = list(self._lines)
            self._lines.clear()
            return lines

    def take(self, name: str, headers: Mapping[str, str], body: bytes) -> int:
        """Accept a delivery.

        :returns: 204; 404 without such a subscription; 401 if the signature does not fit; 400 if it has no delivery.
        """
        with self._lock:
            received = self._received.get(name)
            if received is None:
                return 404
            try:
                verify(received.secret, headers, body, now=self._now())
                document = json.loads(body)
                message_id = next(value for key, value in headers.items() if key.lower() == "webhook-id")
                if message_id not in received.ids:
                    received.apply(document)
                    self._lines.append(_line(document, self._now()))
                    received.ids.add(message_id)
                    received.deliveries += 1
            except BadSignature as exc:
                received.refused = str(exc)
                return 401
            except (ValueError, KeyError, TypeError) as exc:
                received.refused = f"{type(exc).__name__}: {exc}"
                return 400
        return 204

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


def _key(document: Document) -> tuple[str, str]:
    return document["kind"], document["id"]


def _line(body: Mapping[str, Any], now: float) -> str:
    changes = body["resource-changes"]
    parts = [f"{len(changes[name])} {name}" for name in ("created", "modified", "deleted") if changes[name]]
    parts += [f"{name}: {body[name]}" for name in ("resync", "state") if name in body]
    lag = max(0.0, now - datetime.fromisoformat(body["time"]).timestamp())
    return f"{body['subscription-name']}: {', '.join(parts) or 'no changes'}; seq {body['sequence']}, lag {lag:.2f} s"
