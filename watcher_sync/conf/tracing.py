# SPDX-License-Identifier: Apache-2.0
"""``[tracing]``: traces of batches and requests, by OpenTelemetry."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "tracing"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="""
Whether the engine and the REST API export traces.

A batch of events of the engine is one span. It has links to the spans of the events that carry a trace context. A
request of the REST API is one span, which continues the trace of its caller. This needs the extra ``otel``:
``pip install 'watcher-sync[otel]'``.

Related options: ``endpoint``, ``sample_ratio``.
""",
    ),
    cfg.URIOpt(
        "endpoint",
        default="http://127.0.0.1:4318/v1/traces",
        schemes=["http", "https"],
        help="""
URL of the collector, which takes spans by OTLP over HTTP in protobuf.

Credentials do not belong into the URL. Set headers in the environment variable ``OTEL_EXPORTER_OTLP_TRACES_HEADERS``,
and a CA file in ``OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE``. Spans are dropped while the collector is unavailable.
""",
    ),
    cfg.FloatOpt(
        "sample_ratio",
        default=1.0,
        min=0.0,
        max=1.0,
        help="""
Part of the traces that is exported, from 0 to 1.

A request with a trace context goes by the decision of its caller instead.
""",
    ),
    cfg.FloatOpt(
        "timeout",
        default=5.0,
        min=0.1,
        advanced=True,
        help="""
Seconds that the export of some spans may take. The end of a process waits for its last spans at most as long.
""",
    ),
]
