# SPDX-License-Identifier: Apache-2.0
"""What an engine does until it leads: it applies the journal and tries to take the lease."""

from __future__ import annotations

import time
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.engine.consumer import DatabaseHealth, ShutdownState
from watcher_sync.exceptions import DatabaseUnavailable, LeaseHeld, SchemaMissing
from watcher_sync.storage.groups.leases import EngineLease

LOG = logging.getLogger(__name__)


class Standby:
    """Waits for the lease of the engine group. For the engine's thread.

    :param follow: applies the journal; whether the database has the history that the replica knew. It raises
        DatabaseUnavailable.
    :param on_followed: called after each look at the journal while another engine leads. It raises DatabaseUnavailable.
    :param on_taken: called after the last look at the journal, once this engine has the lease. It raises
        DatabaseUnavailable; it is called again then, if this engine still has the lease.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        lease: EngineLease,
        *,
        follow: Callable[[], bool],
        on_followed: Callable[[], None],
        on_taken: Callable[[], None],
        database_health: DatabaseHealth,
        shutdown: ShutdownState,
    ) -> None:
        self._conf = conf
        self._lease = lease
        self._follow = follow
        self._on_followed = on_followed
        self._on_taken = on_taken
        self._database_health = database_health
        self._shutdown = shutdown
        self._announced = False
        self._refused = False
        self._began = self._check_schema_at = 0.0

    def wait(self) -> bool:
        """Apply the journal until this engine has the lease; False when a stop was requested.

        :raises LeaseHeld: another engine leads, and ``[engine] standby`` is false.
        :raises SchemaMissing: this release cannot work on the schema, and ``[engine] standby`` is false.
        """
        self._began = self._check_schema_at = time.monotonic()
        while not self._shutdown.requested.is_set():
            try:
                is_taken = self._take_lease()
                self._database_health.mark_available()
                if is_taken:
                    return True
                pause = float(self._conf.database.journal_poll_interval)
            except SchemaMissing as exc:
                if not self._conf.engine.standby:
                    raise
                if not self._refused:
                    LOG.error("Standing by until the schema is one of this release again: %s", exc)
                self._refused = True
                pause = self._lease.seconds / 3
            except DatabaseUnavailable as exc:
                pause = self._database_health.mark_unavailable(exc)
            self._shutdown.requested.wait(pause)
        return False

    def _take_lease(self) -> bool:
        """Look at the schema, the journal and the lease once; whether this engine leads now."""
        if time.monotonic() >= self._check_schema_at:
            self._lease.require_schema()
            self._refused, self._check_schema_at = False, time.monotonic() + self._lease.seconds / 3
        if not self._follow():
            self._began = time.monotonic()
        if self._lease.try_take():
            self._follow()
            self._on_taken()
            return True
        self._announce_holder()
        self._on_followed()
        return False

    def _announce_holder(self) -> None:
        """Log once who leads, when it has led for a lease time.

        :raises LeaseHeld: ``[engine] standby`` is false.
        """
        holder = self._lease.read()
        if self._announced or holder is None or time.monotonic() - self._began <= self._lease.seconds:
            return
        if not self._conf.engine.standby:
            raise LeaseHeld(
                f"engine group {self._lease.name!r} is led by {holder.holder.split('/')[0]} "
                f"since {holder.since:%Y-%m-%d %H:%M:%S}Z; "
                "to run this engine as a standby, set [engine] standby = true"
            )
        LOG.info("Standing by: engine %s leads the engine group %s", holder.holder, self._lease.name)
        self._announced = True
