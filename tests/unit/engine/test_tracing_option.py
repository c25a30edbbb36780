# SPDX-License-Identifier: Apache-2.0
"""``[tracing]``: off, nothing is imported; on without the package, one line says so; on, a collector gets spans."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.simulated import event
from tests.unit.engine.conftest import Spoken, until
from tests.waiting import deadline
from watcher_sync.assembly.engine import assemble
from watcher_sync.exceptions import ConfigError
from watcher_sync.tracing import make_provider, require_installed


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans by OTLP over HTTP."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.received = []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_without_the_option_there_is_no_provider(conf):
    assert make_provider(conf, "test") is None


def test_the_option_without_the_package_is_an_error_in_one_line(conf, store, monkeypatch):
    conf.set_override("enabled", True, group="tracing")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ConfigError, match=r"^\[tracing\] enabled is true, but .*: pip install 'watcher-sync\[otel\]'$"):
        assemble(conf)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError):
        require_installed(conf)


def test_an_engine_exports_the_spans_of_its_batches_to_the_collector(conf, store, collector):
    conf.set_override("enabled", True, group="tracing")
    conf.set_override("endpoint", f"http://127.0.0.1:{collector.server_port}/v1/traces", group="tracing")
    conf.set_override("timeout", 60, group="tracing")
    source = Spoken("here")
    engine = assemble(conf, {"here": source})
    thread = threading.Thread(target=engine.run, daemon=True)
    thread.start()
    source.say(event(1, "no.such.type"), event(2, "no.such.type"))
    assert until(lambda: len(source.acked) == 2)
    engine.stop(30.0)
    thread.join(deadline(120))
    assert not thread.is_alive()
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    exported = [ExportTraceServiceRequest.FromString(body) for _, body in collector.received]
    resources = [resource for request in exported for resource in request.resource_spans]
    names = {a.key: a.value.string_value for resource in resources for a in resource.resource.attributes}
    assert names["service.name"] == "watcher-sync-engine"
    spans = [span for resource in resources for scope in resource.scope_spans for span in scope.spans]
    counts = [a.value.int_value for span in spans for a in span.attributes if a.key == "watcher_sync.events"]
    assert sum(counts) == 2


def test_an_unavailable_collector_delays_neither_the_engine_nor_its_end(conf, store):
    conf.set_override("enabled", True, group="tracing")
    conf.set_override("endpoint", "http://127.0.0.1:9/v1/traces", group="tracing")
    conf.set_override("timeout", 0.5, group="tracing")
    source = Spoken("here")
    engine = assemble(conf, {"here": source})
    thread = threading.Thread(target=engine.run, daemon=True)
    thread.start()
    source.say(event(1, "no.such.type"))
    assert until(lambda: len(source.acked) == 1)
    engine.stop(5.0)
    thread.join(deadline(40))
    assert not thread.is_alive()
