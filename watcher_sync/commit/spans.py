# SPDX-License-Identifier: Apache-2.0
"""Spans of committed batches, by OpenTelemetry.

A batch is one span, from its dispatch to its publication. It is made when the batch is published, so nothing has to be
carried along. Its links are the trace contexts of its events: CloudEvents have one as the extension attribute
``traceparent``. A notification of Nova may have the global request id of its request, which is an attribute.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from watcher_sync.commit.batch import Pending
from watcher_sync.events import Event

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link

_MAX_LINKS: Final = 100
"""Links, and global request ids, of one span."""
_NANOSECONDS: Final = 1_000_000_000


class BatchTracer(Protocol):
    """Makes the spans of batches."""

    def committed(self, pending: Pending, seconds: float | None, lasted: float) -> None:
        """A batch is published.

        :param seconds: duration of the database transaction; None if there was nothing to write.
        :param lasted: seconds since its dispatch began.
        """

    def close(self) -> None:
        """Export the last spans."""


class BatchSpans:
    """The spans of one process. For the thread of its cycle."""

    def __init__(self, provider: TracerProvider, *, scope: str, now: Callable[[], int] = time.time_ns) -> None:
        """:param now: nanoseconds since 1970."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer(scope)
        self._now = now
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()

    def committed(self, pending: Pending, seconds: float | None, lasted: float) -> None:
        """As :class:`BatchTracer`."""
        events, commit, end = pending.batch.events, pending.commit, self._now()
        attributes: dict[str, str | int | float | list[str]] = {
            "watcher_sync.sources": sorted({event.source for event in events}),
            "watcher_sync.events": len(events),
            "watcher_sync.changes": len(commit.staged),
            "watcher_sync.seq.before": commit.generation,
            "watcher_sync.seq.after": commit.generation + len(commit.staged),
        }
        for outcome, count in collections.Counter(pending.work.outcomes).items():
            attributes[f"watcher_sync.outcome.{outcome.value}"] = count
        if seconds is not None:
            attributes["watcher_sync.commit_seconds"] = seconds
        requests = {event.trace.global_request_id for event in events if event.trace is not None} - {""}
        if requests:
            attributes["openstack.global_request_ids"] = sorted(requests)[:_MAX_LINKS]
        span = self._tracer.start_span(
            "commit batch",
            context=self._trace.set_span_in_context(self._trace.INVALID_SPAN),
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=self._links(events),
            start_time=end - int(lasted * _NANOSECONDS),
        )
        span.end(end)

    def close(self) -> None:
        """As :class:`BatchTracer`."""
        self._provider.shutdown()

    def _links(self, events: Iterable[Event]) -> list[Link]:
        found: dict[str, Link] = {}
        for event in events:
            traceparent = event.trace.traceparent if event.trace is not None else ""
            if not traceparent or traceparent in found or len(found) == _MAX_LINKS:
                continue
            context = self._propagator.extract({"traceparent": traceparent})
            origin = self._trace.get_current_span(context).get_span_context()
            if origin.is_valid:
                found[traceparent] = self._trace.Link(origin)
        return list(found.values())
