# SPDX-License-Identifier: Apache-2.0
"""The work of ``watcher-sync-engine``: it reads the sources and maintains the model.

Before the fork the master waits for the database, and checks the configuration, the plugins and the schema. Without
``[engine] standby`` it also checks that no other engine of the group leads. Then one worker process runs the engine.

* SIGTERM: the worker drains its batches and ends.
* SIGHUP: the worker reads the mutable options again and changes nothing else.
* SIGUSR2: the worker writes a report (see :mod:`watcher_sync.engine.guru_report`).

The master forwards all three signals to the worker.
"""

from __future__ import annotations

import os
import signal

import cotyledon
from cotyledon.types import WorkerId
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.assembly import process
from watcher_sync.assembly.engine import assemble
from watcher_sync.commit.suspects import in_hand, path_of
from watcher_sync.engine import guru_report
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.monitoring_http import MonitoringServer, check_port, make_application
from watcher_sync.exceptions import LeaseHeld, SchemaMissing
from watcher_sync.storage.groups.leases import LeaseView

LOG = logging.getLogger(__name__)


class EngineService(cotyledon.Service):
    """The worker process that runs the engine."""

    name = "watcher-sync-engine"

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts, started_at: float) -> None:
        super().__init__(worker_id)
        process.accept_signals()
        self._conf = conf
        process.reload_if_written(conf, started_at)
        self._engine = assemble(conf)
        guru_report.set_up(conf, self._engine)
        self._monitoring = MonitoringServer(conf, make_application(self._engine))
        self._monitoring.start()

    def run(self) -> None:
        """Run the engine until it is terminated."""
        try:
            self._engine.run()
        except (LeaseHeld, SchemaMissing) as exc:
            LOG.error("%s", exc)
            os.kill(os.getppid(), signal.SIGTERM)

    def terminate(self) -> None:
        """Stop the engine and wait until it has drained."""
        self._engine.stop()
        self._engine.join(self._conf.engine.graceful_shutdown_timeout)
        self._monitoring.stop()

    def reload(self) -> None:
        """Apply all changed mutable options, or none if a file is wrong. The process and its model remain."""
        names = process.reload(self._conf)
        if names is not None:
            self._engine.reload(names)


def main(conf: cfg.ConfigOpts, started_at: float) -> int:
    """Run until SIGTERM; returns the exit status.

    :param started_at: time of the start, in seconds since the epoch.
    """
    if not conf.engine.enabled_sources:
        LOG.warning("[engine] enabled_sources is empty: the engine reads no source")
    engine, holder = process.when_the_database_answers(conf, lambda: _assembled(conf))
    if holder is not None:
        raise LeaseHeld(
            f"engine group {conf.engine.group!r} is led by {holder.holder.split('/')[0]} "
            f"since {holder.since:%Y-%m-%d %H:%M:%S}Z; to run this engine as a standby, set [engine] standby = true"
        )
    check_port(conf)
    engine.store.dispose()
    engine.lease.close()
    guru_report.forward_signal()
    manager = process.make_manager(conf.engine.graceful_shutdown_timeout + 5)
    manager.add(EngineService, workers=1, args=(conf, started_at))
    process.run_workers(manager, lambda: in_hand(path_of(conf.state_path, conf.engine.group)))
    return 0


def _assembled(conf: cfg.ConfigOpts) -> tuple[Engine, LeaseView | None]:
    """The engine, and which other one leads its group; None for a standby, which may start beside it.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    engine = assemble(conf)
    return engine, None if conf.engine.standby else engine.lease.find_live_holder()
