# SPDX-License-Identifier: Apache-2.0
"""The work of ``watcher-sync-outlet``: it hands the changes of the journal on to subscribers.

The extensions bring the processes, such as those that deliver webhooks, publish on logs, and serve the watch stream.
Before the fork the master waits for the database, and checks the configuration and the schema. It imports nothing that
does not outlast a fork, such as gRPC.

* SIGTERM: the workers finish the attempts under way, and give their subscriptions to the others. The streams end, and
  their clients resume elsewhere.
* SIGHUP: the processes read the mutable options and the certificates again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import cotyledon
import msgspec
from cotyledon.types import WorkerId
from oslo_config import cfg
from prometheus_client import make_wsgi_app
from prometheus_client.registry import Collector, CollectorRegistry

from watcher_sync.assembly import process
from watcher_sync.assembly.store import open_store
from watcher_sync.engine.monitoring_http import MonitoringServer, check_ports
from watcher_sync.engine.services import Reloadable
from watcher_sync.exceptions import ConfigError
from watcher_sync.extension import OutletProcess, gather

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_STOP_SECONDS = 10
_MAX_PORT = 65_535


class _OutletService(cotyledon.Service):
    """A process with the work of an outlet, and its monitoring port."""

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts, started_at: float, kind: OutletProcess) -> None:
        super().__init__(worker_id)
        process.accept_signals()
        process.reload_if_written(conf, started_at)
        self._conf = conf
        self._started = threading.Event()
        self._worker = kind.assemble(conf)
        application = make_monitoring(self._worker.collector(), self._worker.is_alive)
        port = conf[kind.section].monitoring_port
        self._monitoring = MonitoringServer(conf, application, port and port + worker_id)

    def run(self) -> None:
        """Begin to deliver or to serve."""
        self._worker.start()
        self._monitoring.start()
        self._started.set()

    def terminate(self) -> None:
        """Finish the attempts under way, or end the streams, and stop."""
        # Another thread runs the start. A signal may come before it.
        self._started.wait(_STOP_SECONDS)
        self._worker.stop(_STOP_SECONDS)
        self._monitoring.stop()

    def reload(self) -> None:
        """Apply all changed mutable options, and certificates where there are any, or none if a file is wrong."""
        if process.reload(self._conf, check) is not None and isinstance(self._worker, Reloadable):
            self._worker.reload()


def check(conf: cfg.ConfigOpts) -> None:
    """Check the options of all enabled processes.

    :raises ConfigError: one cannot work.
    """
    kinds = _enabled(conf)
    for kind in kinds:
        kind.check(conf)
    ours: list[tuple[str, int]] = []
    for kind in kinds:
        ports, options = _monitoring_ports(conf, kind)
        if ports and ports[-1] > _MAX_PORT:
            raise ConfigError(f"{options}: the ports of {len(ports)} workers end at {ports[-1]}, above {_MAX_PORT}")
        ours += [*kind.ports.items(), *((options, port) for port in ports)]
    others = [("[monitoring] port", conf.monitoring.port), ("[api] port", conf.api.port), *ours]
    for options, port in ours:
        if twice := [name for name, other in others if other == port and name != options]:
            raise ConfigError(f"{options}: {port} is also {twice[0]}")


def main(conf: cfg.ConfigOpts, started_at: float) -> int:
    """Run until SIGTERM; returns the exit status.

    :param started_at: time of the start, in seconds since the epoch.
    """
    kinds = _enabled(conf)
    if not kinds:
        options = ", ".join(kind.enabled_by for kind in gather(lambda each: each.outlet_processes(conf)))
        raise ConfigError(f"there is nothing to do: set one of {options}")
    check(conf)
    process.when_the_database_answers(conf, lambda: open_store(conf)).dispose()
    for kind in kinds:
        check_ports(conf, *_monitoring_ports(conf, kind))
    manager = process.make_manager(_STOP_SECONDS + 5)
    for kind in kinds:
        service = type("OutletService", (_OutletService,), {"name": kind.name})
        manager.add(service, workers=kind.workers, args=(conf, started_at, kind))
    process.run_workers(manager)
    return 0


def _enabled(conf: cfg.ConfigOpts) -> list[OutletProcess]:
    return [kind for kind in gather(lambda each: each.outlet_processes(conf)) if kind.workers]


def _monitoring_ports(conf: cfg.ConfigOpts, kind: OutletProcess) -> tuple[range, str]:
    """The ports of ``/healthz`` and ``/metrics`` of the workers, and the options that give them."""
    first, options = conf[kind.section].monitoring_port, f"[{kind.section}] monitoring_port"
    if "workers" in conf[kind.section]:
        options += ", workers"
    return range(first, first + kind.workers if first else 0), options


def make_monitoring(collector: Collector, is_alive: Callable[[], bool]) -> WSGIApplication:
    """``/healthz`` and ``/metrics`` of one worker, as a WSGI application. Any thread may serve it.

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
