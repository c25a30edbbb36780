# SPDX-License-Identifier: Apache-2.0
"""A committed batch is one span, with links to the traces of its events."""

from __future__ import annotations

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.commit.spans import BatchSpans
from watcher_sync.events import TraceContext
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Upsert

FIRST = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SECOND = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
INVALID = "00-00000000000000000000000000000000-0000000000000000-01"
REQUEST = "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def cycle(store, exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = BatchSpans(provider, scope="test", now=lambda: 5_000_000_000)
    return CommitCycle(store, store.load(), telling(), CommitOptions(tracer=tracer))


def event(number, *items, source="test", **trace):
    made = msgspec.structs.replace(told(number, *items), source=source)
    return msgspec.structs.replace(made, trace=TraceContext(**trace)) if trace else made


def instance(entity_id, version="1"):
    return Upsert("instance", entity_id, version, {"state": {}, "details": {"name": entity_id}})


def test_a_batch_is_one_span_with_its_sources_seqs_and_outcomes(cycle, exporter):
    cycle.run(Batch(events=[event(0, instance("before"))]))
    exporter.clear()
    cycle.run(
        Batch(
            events=[
                event(1, instance("a"), instance("b")),
                event(2, instance("a"), source="other"),
                event(3, InvalidEvent("no")),
            ]
        )
    )
    (span,) = exporter.get_finished_spans()
    attributes = dict(span.attributes)
    assert attributes.pop("watcher_sync.commit_seconds") > 0
    assert attributes == {
        "watcher_sync.sources": ("other", "test"),
        "watcher_sync.events": 3,
        "watcher_sync.changes": 2,
        "watcher_sync.seq.before": 1,
        "watcher_sync.seq.after": 3,
        "watcher_sync.outcome.applied": 1,
        "watcher_sync.outcome.duplicate": 1,
        "watcher_sync.outcome.quarantined": 1,
    }
    assert (span.name, span.kind, span.parent, span.links) == ("commit batch", SpanKind.CONSUMER, None, ())
    assert span.start_time < span.end_time == 5_000_000_000


def test_a_span_has_one_link_for_each_trace_of_its_events_and_the_global_request_ids(cycle, exporter):
    traces = [{"traceparent": text} for text in (FIRST, SECOND, FIRST, INVALID)]
    traces.append({"global_request_id": REQUEST})
    cycle.run(Batch(events=[event(n, instance(f"i{n}"), **trace) for n, trace in enumerate(traces)]))
    (span,) = exporter.get_finished_spans()
    linked = [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links]
    assert linked == [tuple(text.split("-")[1:3]) for text in (FIRST, SECOND)]
    assert span.attributes["openstack.global_request_ids"] == (REQUEST,)


def test_the_links_of_a_span_are_limited(cycle, exporter):
    texts = [f"00-{n:032x}-{n:016x}-01" for n in range(1, 150)]
    cycle.run(Batch(events=[event(n, instance(f"i{n}"), traceparent=text) for n, text in enumerate(texts)]))
    (span,) = exporter.get_finished_spans()
    assert len(span.links) == 100


def test_batches_that_overlap_are_spans_of_their_own(cycle, exporter):
    pipeline = Pipeline(cycle, again=lambda batch: True, settle=lambda owner, committed: None)
    for number in range(3):
        pipeline.add(number, Batch(events=[event(number, instance(f"i{number}"))]))
    pipeline.end()
    seqs = [span.attributes["watcher_sync.seq.after"] for span in exporter.get_finished_spans()]
    assert seqs == [1, 2, 3]
