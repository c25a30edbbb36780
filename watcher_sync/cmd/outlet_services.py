# SPDX-License-Identifier: Apache-2.0
"""The work of ``watcher-sync-outlet``: it hands the changes of the journal on to subscribers.

Before the fork the master waits for the database, and checks the configuration and the schema. Then
``[outlet_webhook] workers`` processes deliver webhooks. They share the subscriptions with the workers of other
machines. One further process publishes on logs, and one serves the watch stream, if they are enabled. The
latter alone imports gRPC, whose threads do not outlast a fork.

* SIGTERM: the workers finish the attempts under way, and give their subscriptions to the others. The streams end, and
  their clients resume elsewhere.
* SIGHUP: the processes read the mutable options and the certificates again.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import cotyledon
import msgspec
from cotyledon.types import WorkerId
from oslo_config import cfg
from prometheus_client import make_wsgi_app
from prometheus_client.registry import Collector, CollectorRegistry

from watcher_sync.assembly import log as logs
from watcher_sync.assembly import outlet as webhooks
from watcher_sync.assembly import process
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import outlet_watch
from watcher_sync.engine.monitoring_http import MonitoringServer, check_ports
from watcher_sync.exceptions import ConfigError
from watcher_sync.log.metrics import LogCollector
from watcher_sync.webhooks.metrics import WebhookCollector

_STOP_SECONDS = 10


class _Outlet(Protocol):
    def start(self) -> None: ...

    def stop(self, timeout: float) -> None: ...


@runtime_checkable
class _Reloadable(Protocol):
    def reload(self) -> None: ...


class _OutletService(cotyledon.Service, abc.ABC):
    """A process with an outlet and its monitoring port."""

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts, started_at: float) -> None:
        super().__init__(worker_id)
        process.accept_signals()
        process.reload_if_written(conf, started_at)
        self._conf = conf
        self._started = threading.Event()
        self._outlet, self._monitoring = self._assemble(conf, worker_id)

    @abc.abstractmethod
    def _assemble(self, conf: cfg.ConfigOpts, worker_id: WorkerId) -> tuple[_Outlet, MonitoringServer]:
        """Make the outlet and its monitoring server; neither runs yet."""

    def run(self) -> None:
        """Begin to deliver or to serve."""
        self._outlet.start()
        self._monitoring.start()
        self._started.set()

    def terminate(self) -> None:
        """Finish the attempts under way, or end the streams, and stop."""
        # Another thread runs the start. A signal may come before it.
        self._started.wait(_STOP_SECONDS)
        self._outlet.stop(_STOP_SECONDS)
        self._monitoring.stop()

    def reload(self) -> None:
        """Apply all changed mutable options, and certificates where there are any, or none if a file is wrong."""
        if process.reload(self._conf, _check) is not None and isinstance(self._outlet, _Reloadable):
            self._outlet.reload()


class WebhookService(_OutletService):
    """A worker process that delivers webhooks."""

    name = "watcher-sync-outlet"

    def _assemble(self, conf: cfg.ConfigOpts, worker_id: WorkerId) -> tuple[_Outlet, MonitoringServer]:
        outlet = webhooks.assemble(conf)
        application = make_monitoring(WebhookCollector(outlet.worker.stats), outlet.worker.is_alive)
        port = conf.outlet_webhook.monitoring_port
        return outlet, MonitoringServer(conf, application, port and port + worker_id)


class LogService(_OutletService):
    """The process that publishes the journal on logs."""

    name = "watcher-sync-outlet-log"

    def _assemble(self, conf: cfg.ConfigOpts, worker_id: WorkerId) -> tuple[_Outlet, MonitoringServer]:
        worker = logs.assemble(conf)
        application = make_monitoring(LogCollector(worker.stats, worker.head), worker.is_alive)
        return worker, MonitoringServer(conf, application, conf.outlets.monitoring_port)


class WatchStreamService(_OutletService):
    """The process that serves the watch stream."""

    name = "watcher-sync-outlet-watch"

    def _assemble(self, conf: cfg.ConfigOpts, worker_id: WorkerId) -> tuple[_Outlet, MonitoringServer]:
        # Imported here: gRPC must not be imported before the fork.
        from watcher_sync.assembly import watch
        from watcher_sync.watch.metrics import WatchCollector

        outlet = watch.assemble(conf)
        application = make_monitoring(WatchCollector(outlet.worker.stats), outlet.worker.is_serving)
        return outlet, MonitoringServer(conf, application, conf.outlet_watch.monitoring_port)


def _check(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: an option cannot work."""
    if conf.outlet_webhook.enabled:
        webhooks.check(conf)
    logs.check(conf)
    if outlet_watch.is_enabled(conf):
        # Imported here: they import the REST API, which an outlet of webhooks does not use.
        from watcher_sync.assembly import api
        from watcher_sync.watch import options

        options.check(conf)
        api.check_policy(conf)


def main(conf: cfg.ConfigOpts, started_at: float) -> int:
    """Run until SIGTERM; returns the exit status.

    :param started_at: time of the start, in seconds since the epoch.
    """
    has_watch = outlet_watch.is_enabled(conf)
    if not conf.outlet_webhook.enabled and not has_watch and not conf.outlets.enabled:
        raise ConfigError(
            "there is nothing to do: [outlet_webhook] and [outlet_watch] are not enabled, and [outlets] names none"
        )
    _check(conf)
    process.when_the_database_answers(conf, lambda: open_store(conf)).dispose()
    if conf.outlet_webhook.enabled:
        check_ports(conf, webhooks.monitoring_ports(conf), "[outlet_webhook] monitoring_port, workers")
    if has_watch and conf.outlet_watch.monitoring_port:
        check_ports(conf, [conf.outlet_watch.monitoring_port], "[outlet_watch] monitoring_port")
    if conf.outlets.enabled and conf.outlets.monitoring_port:
        check_ports(conf, [conf.outlets.monitoring_port], "[outlets] monitoring_port")
    manager = process.make_manager(_STOP_SECONDS + 5)
    if conf.outlet_webhook.enabled:
        manager.add(WebhookService, workers=conf.outlet_webhook.workers, args=(conf, started_at))
    if conf.outlets.enabled:
        manager.add(LogService, workers=1, args=(conf, started_at))
    if has_watch:
        manager.add(WatchStreamService, workers=1, args=(conf, started_at))
    process.run_workers(manager)
    return 0


if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


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
