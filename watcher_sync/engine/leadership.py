# SPDX-License-Identifier: Apache-2.0
"""The thread that renews the engine's lease while the engine can commit.

A leader that runs but cannot commit must not prevent another engine from it: its connection may be the only broken
one. So the thread does not renew the lease while the database leaves a commit unanswered for a lease time.

It also gives up leading when the schema is no longer one that this release can work on.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from watcher_sync.exceptions import LeaseLost, SchemaMissing
from watcher_sync.periodic import Outage, PeriodicThread
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.groups.leases import EngineLease

LOG = logging.getLogger(__name__)


class Heartbeat:
    """Renews a taken lease three times per lease time, until it is stopped or the lease is lost."""

    def __init__(
        self,
        lease: EngineLease,
        lost: Callable[[], None],
        watch: CommitWatch,
    ) -> None:
        """:param lost: called from the heartbeat's thread, once, when this engine must no longer lead.

        :param watch: measures for how long the database has left a commit unanswered.
        """
        self._lease = lease
        self._watch = watch
        self._lost = lost
        self._is_stalled = False
        outage = Outage(LOG, f"The lease {lease.name} cannot be renewed", f"The lease {lease.name} is renewed again")
        self._thread = PeriodicThread("lease", self._renew, lease.seconds / 3, outage, at_once=False)

    def start(self) -> None:
        """Begin to renew the lease."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended, or after 5 seconds."""
        self._thread.stop(5)

    def _renew(self) -> bool:
        was_stalled, self._is_stalled = self._is_stalled, self._watch.unanswered_seconds >= self._lease.seconds
        if self._is_stalled:
            if not was_stalled:
                LOG.error("The lease %s is not renewed: the database does not answer a commit", self._lease.name)
            return False
        try:
            self._lease.beat()
            self._lease.require_schema()
        except (LeaseLost, SchemaMissing) as exc:
            LOG.error("%s", exc)
            self._thread.begin_stop()
            self._lost()
            return False
        return True
