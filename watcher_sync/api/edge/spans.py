# SPDX-License-Identifier: Apache-2.0
"""WSGI middleware: a request is one span, which continues the trace of its caller (W3C Trace Context).

The span ends with the last byte of the answer. Its name has the method and the collection, without ids. The query is no
part of it. Without ``[tracing] enabled`` there is no middleware.

oslo.middleware has such a middleware, too. Its spans have the query and ids in their names, end before a stream does,
and ignore the sampling decision of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg

from watcher_sync.api.http.envelope import GLOBAL_REQUEST_ID, REQUEST_ID
from watcher_sync.tracing import SCOPE, make_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

Wsgi = Callable[..., Iterable[bytes]]

SERVICE: Final = "watcher-sync-api"
_MAX_PATH_CHARS: Final = 1024
_ATTRIBUTES: Final = {
    REQUEST_ID: "openstack.request_id",
    GLOBAL_REQUEST_ID: "openstack.global_request_id",
    "REMOTE_ADDR": "client.address",
}


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Makes spans of the requests of an application, if the option is on.

    :raises ConfigError: OpenTelemetry is not installed.
    """
    provider = make_provider(conf, SERVICE)
    return application if provider is None else traced(application, provider)


def traced(application: Wsgi, provider: TracerProvider) -> Wsgi:
    """Makes spans of the requests of an application."""
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer, propagator = provider.get_tracer(SCOPE), TraceContextTextMapPropagator()

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        carrier = {name: environ[key] for name, key in _CARRIED.items() if key in environ}
        attributes = {name: environ[key] for key, name in _ATTRIBUTES.items() if environ.get(key)}
        attributes["http.request.method"] = method = environ.get("REQUEST_METHOD", "-")
        attributes["url.path"] = path = _path_of(environ)
        span = tracer.start_span(
            method, context=propagator.extract(carrier), kind=SpanKind.SERVER, attributes=attributes
        )

        def start(status: str, *more: Any) -> Any:
            code = int(status[:3])
            span.set_attribute("http.response.status_code", code)
            if code != 404:
                span.update_name(f"{method} {_collection(path)}")
            if code >= 500:
                span.set_status(Status(StatusCode.ERROR))
            return start_response(status, *more)

        try:
            return _SpannedBody(application(environ, start), span)
        except BaseException as exc:
            span.set_status(Status(StatusCode.ERROR, type(exc).__name__))
            span.end()
            raise

    return wrapped


_CARRIED: Final = {"traceparent": "HTTP_TRACEPARENT", "tracestate": "HTTP_TRACESTATE"}


class _SpannedBody:
    """The body of an answer, whose end is that of the span."""

    def __init__(self, chunks: Iterable[bytes], span: Span) -> None:
        self._chunks = chunks
        self._span = span

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        """WSGI: the server calls it after the last chunk, and when the client disconnects."""
        try:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        finally:
            self._span.end()


def _path_of(environ: dict[str, Any]) -> str:
    """The path as it was asked for. WSGI has its bytes as Latin-1."""
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return path.encode("latin-1", "replace").decode("utf-8", "replace")[:_MAX_PATH_CHARS]


def _collection(path: str) -> str:
    """The first parts of the path, which have no id."""
    return "/".join(path.split("/")[:3]) or "/"
