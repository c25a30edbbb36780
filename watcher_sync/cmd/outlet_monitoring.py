# SPDX-License-Identifier: Apache-2.0
"""``/healthz`` and ``/metrics`` of one worker process. Any thread may serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import make_wsgi_app
from prometheus_client.registry import Collector, CollectorRegistry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def make_application(collector: Collector, is_alive: Callable[[], bool]) -> WSGIApplication:
    """``/healthz`` and ``/metrics`` of one worker, as a WSGI application.

    :param collector: the metrics of the worker.
    :param is_alive: whether the worker's thread runs.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    scrape = make_wsgi_app(registry)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return scrape(environ, start_response)  # type: ignore[no-any-return]
        document: dict[str, Any]
        if path != "/healthz":
            status, document = "404 Not Found", {"paths": ["/healthz", "/metrics"]}
        else:
            alive = is_alive()
            status, document = "200 OK" if alive else "503 Service Unavailable", {"alive": alive}
        body = msgspec.json.encode(document) + b"\n"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return application
