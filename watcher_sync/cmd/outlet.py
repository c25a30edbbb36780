# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-outlet``: hands the changes of the journal on to subscribers.

Before the fork the master waits for the database, and checks the configuration and the schema. Then
``[outlet_webhook] workers`` processes deliver webhooks. They share the subscriptions with the workers of other
machines.

* SIGTERM: the workers finish the attempts under way, and give their subscriptions to the others.
* SIGHUP: the workers read the mutable options again.
"""

from __future__ import annotations

import sys

import cotyledon
from cotyledon.types import WorkerId
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.assembly import process, safe_logging
from watcher_sync.assembly.outlet import assemble, check, monitoring_ports
from watcher_sync.engine.monitoring_http import MonitoringServer, check_ports
from watcher_sync.exceptions import ConfigError
from watcher_sync.outlets.webhooks.metrics import make_application

LOG = logging.getLogger(__name__)

_STOP_SECONDS = 10


class WebhookService(cotyledon.Service):
    """A worker process that delivers webhooks."""

    name = "watcher-sync-outlet"

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._outlet = assemble(conf)
        port = conf.outlet_webhook.monitoring_port
        worker = self._outlet.worker
        application = make_application(worker.stats, worker.is_alive)
        self._monitoring = MonitoringServer(conf, application, port and port + worker_id)

    def run(self) -> None:
        """Begin to deliver."""
        self._outlet.start()
        self._monitoring.start()

    def terminate(self) -> None:
        """Finish the attempts under way, and stop."""
        self._outlet.stop(_STOP_SECONDS)
        self._monitoring.stop()

    def reload(self) -> None:
        """Apply all changed mutable options, or none if a file is wrong."""
        try:
            check(process.check_again(self._conf))
        except ConfigError as exc:
            LOG.error("The configuration was not reloaded: %s", exc)
            return
        changed = self._conf.mutate_config_files()
        safe_logging.install()
        names = [f"{group or 'DEFAULT'}.{option}" for group, option in changed]
        LOG.info("Reloaded the configuration: %s", ", ".join(names) or "nothing changed")


def main() -> None:
    """Entry point."""
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    conf = process.make_conf(argv, prog="watcher-sync-outlet")
    if not conf.outlet_webhook.enabled:
        raise ConfigError("[outlet_webhook] enabled is false: there is nothing to do")
    process.when_the_database_answers(conf, lambda: assemble(conf)).store.database.dispose()
    check_ports(conf, monitoring_ports(conf), "[outlet_webhook] monitoring_port, workers")
    manager = cotyledon.ServiceManager(graceful_shutdown_timeout=_STOP_SECONDS + 5)
    manager.add(WebhookService, workers=conf.outlet_webhook.workers, args=(conf,))
    manager.run()
    return 0
