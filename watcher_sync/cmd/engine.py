# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-engine``: listens to the sources and keeps the model.

What can be wrong is found before anything is forked: configuration, plugins, schema, and another live
engine of the same group where this one is not to stand by. Then one worker process does the work.
SIGTERM drains it, SIGHUP has it read the mutable options again and keep everything else, SIGUSR2 has it
report on itself (see ``engine/meditation``); all three may be sent to the master, which passes them on.
"""

from __future__ import annotations

import os
import signal
import sys

import cotyledon
from cotyledon.types import WorkerId
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.assembly import process
from watcher_sync.assembly.engine import assemble
from watcher_sync.engine import guru_report
from watcher_sync.engine.monitoring_http import MonitoringPort, check_port, make_application
from watcher_sync.exceptions import ConfigError, LeaseHeld

LOG = logging.getLogger(__name__)


class EngineService(cotyledon.Service):
    """The one worker."""

    name = "watcher-sync-engine"

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._engine = assemble(conf)
        guru_report.set_up(conf, self._engine)
        self._port = MonitoringPort(conf, make_application(self._engine))
        self._port.start()

    def run(self) -> None:
        """Work until terminated."""
        try:
            self._engine.run()
        except LeaseHeld as exc:
            LOG.error("%s", exc)
            os.kill(os.getppid(), signal.SIGTERM)

    def terminate(self) -> None:
        """Drain; the caller waits for it."""
        self._engine.stop()
        self._engine.join(self._conf.engine.graceful_shutdown_timeout)
        self._port.stop()

    def reload(self) -> None:
        """Read the mutable options again, in the same process, with the same model; all of them, or none."""
        try:
            process.check_again(self._conf)
        except ConfigError as exc:
            LOG.error("The configuration stays as it was before the reload: %s", exc)
            return
        changed = self._conf.mutate_config_files()
        names = [f"{group or 'DEFAULT'}.{option}" for group, option in changed]
        LOG.info("Reloaded the configuration: %s", ", ".join(names) or "nothing changed")
        self._engine.reload(names)


def main() -> None:
    """Entry point."""
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    conf = process.make_conf(argv, prog="watcher-sync-engine")
    if not conf.engine.enabled_sources:
        LOG.warning("[engine] enabled_sources is empty: nothing to listen to")
    engine = assemble(conf)
    if not conf.engine.standby:
        holder = engine.lease.find_live_holder()
        if holder is not None:
            raise LeaseHeld(
                f"engine group {conf.engine.group!r} is led by {holder.holder.split('/')[0]} "
                f"since {holder.since:%Y-%m-%d %H:%M:%S}Z; to have this engine stand by, set [engine] standby = true"
            )
    check_port(conf)
    engine.store.database.dispose()
    guru_report.pass_on()
    manager = cotyledon.ServiceManager(graceful_shutdown_timeout=conf.engine.graceful_shutdown_timeout + 5)
    manager.add(EngineService, workers=1, args=(conf,))
    manager.run()
    return 0
