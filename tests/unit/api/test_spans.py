# SPDX-License-Identifier: Apache-2.0
"""A request of the REST API is one span, which continues the trace of its caller."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.unit.api.conftest import Client
from watcher_sync.api.edge import spans
from watcher_sync.api.http import envelope

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def traced(application, provider, conf):
    return Client(envelope.wrap(spans.traced(application, provider), conf))


def test_a_request_is_a_server_span_in_the_trace_of_its_caller(traced, truth, exporter):
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    answer = traced.simulate_get("/v1/instances", query_string="limit=1", headers=headers)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("GET /v1/instances", SpanKind.SERVER)
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.attributes["http.response.status_code"] == answer.status_code == 200
    assert span.attributes["url.path"] == "/v1/instances"
    assert span.attributes["openstack.request_id"].startswith("req-")


@pytest.mark.parametrize("header", [{}, {"traceparent": "nonsense"}])
def test_a_request_without_a_trace_begins_one(traced, exporter, header):
    assert traced.simulate_get("/v1/instances/none-of-these", headers=header).status_code == 404
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert span.name == "GET"


def test_the_name_of_a_span_has_no_id(traced, truth, exporter):
    instance_id = next(iter(truth["instance"]))
    assert traced.simulate_get(f"/v1/instances/{instance_id}/history").status_code == 200
    assert exporter.get_finished_spans()[0].name == "GET /v1/instances"


def test_a_span_ends_with_the_last_byte_of_a_stream(provider, exporter):
    def stream(environ, start_response):
        start_response("200 OK", [])
        yield b"1"
        assert not exporter.get_finished_spans()

    body = spans.traced(stream, provider)({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/events"}, lambda *_: None)
    assert list(body) == [b"1"]
    assert not exporter.get_finished_spans()
    body.close()
    assert [span.name for span in exporter.get_finished_spans()] == ["GET /v1/events"]


def test_an_application_that_fails_ends_the_span_as_an_error(provider, exporter):
    def failing(environ, start_response):
        raise OSError("secret")

    with pytest.raises(OSError, match="secret"):
        spans.traced(failing, provider)({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *_: None)
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "OSError")


def test_without_the_option_there_is_no_middleware(application, conf):
    assert spans.wrap(application, conf) is application
