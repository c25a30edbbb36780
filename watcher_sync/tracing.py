# SPDX-License-Identifier: Apache-2.0
"""Makes the exporter of traces from ``[tracing]``.

OpenTelemetry is the extra ``otel``. It is imported only if the option is on. The provider is our own, so nothing global
is set, and libraries that are instrumented by OpenTelemetry stay as they are.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import TYPE_CHECKING, Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SCOPE: Final = "watcher_sync"
"""The name of the instrumentation scope of all spans."""

_NEEDED: Final = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def require_installed(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: tracing is enabled, and OpenTelemetry is not installed."""
    if conf.tracing.enabled and not all(map(_is_installed, _NEEDED)):
        raise ConfigError("[tracing] enabled is true, but OpenTelemetry is missing: pip install 'watcher-sync[otel]'")


def make_provider(conf: cfg.ConfigOpts, service: str) -> TracerProvider | None:
    """The provider of a process, which exports in a thread of its own; None: tracing is off.

    Call it after the fork.

    :param service: the name of the executable.
    :raises ConfigError: OpenTelemetry is not installed.
    """
    if not conf.tracing.enabled:
        return None
    require_installed(conf)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    options = conf.tracing
    instance = f"{socket.gethostname()}/{os.getpid()}"
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(options.sample_ratio)),
        resource=Resource.create({"service.name": service, "service.instance.id": instance}),
    )
    exporter = OTLPSpanExporter(endpoint=options.endpoint, timeout=options.timeout)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package above it
        return False
