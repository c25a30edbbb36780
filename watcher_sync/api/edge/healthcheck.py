# SPDX-License-Identifier: Apache-2.0
"""``/healthcheck`` for load balancers, and its backends.

oslo.middleware answers the request without authentication, and calls its backends. Two of them are in this module. They
have entry points in ``oslo.middleware.healthcheck``, and are the default of ``[healthcheck] backends``:

* ``watcher_sync_database``: the database answers, and has the schema.
* ``watcher_sync_sources``: no source is stale, as its engine reports it (see ``[monitoring]``).

The request needs no token, so the answer has details only with ``[healthcheck] detailed``. A backend reuses its result
for a second, so that many requests cause only one query.
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck import opts
from oslo_middleware.healthcheck.pluginbase import HealthcheckBaseExtension, HealthcheckResult

from watcher_sync.conf.opts import HEALTH_BACKENDS
from watcher_sync.exceptions import SchemaMissing, StorageError
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.database import open_database, translated
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups.source_status import list_sources, problem_of
from watcher_sync.storage.schema.schema import check_revision
from watcher_sync.storage.schema.tables import Tables

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

PATH = "/healthcheck"

_MAX_RESULT_AGE_SECONDS = 1.0
"""How long a backend reuses its result."""


def wrap(application: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Makes the application that answers :data:`PATH`.

    :param application: answers a caller outside of ``[healthcheck] allowed_source_ranges``.
    :param conf: with ``[database]`` and ``[monitoring]``.
    :raises ConfigError: when ``[database] connection`` is unusable.
    """
    conf.register_opts(opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_default("backends", HEALTH_BACKENDS, group="healthcheck")
    return healthcheck.Healthcheck(application, conf)


class _Backend(HealthcheckBaseExtension, abc.ABC):
    """A backend that queries the database at most once a second."""

    def __init__(
        self,
        oslo_conf: cfg.ConfigOpts,
        conf: dict[str, Any],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(oslo_conf, conf)
        self._engine = open_database(oslo_conf, answer=oslo_conf.database.commit_timeout)
        self._monotonic = monotonic
        # Guards the cached result. One caller queries the database while the others wait for its result.
        self._lock = threading.Lock()
        self._cached: tuple[float, HealthcheckResult] | None = None

    def healthcheck(self, server_port: int) -> HealthcheckResult:
        """Returns the result of at most a second ago. oslo.middleware calls this for each request."""
        with self._lock:
            if self._cached is None or self._monotonic() - self._cached[0] >= _MAX_RESULT_AGE_SECONDS:
                try:
                    result = self._query(self._engine)
                except SchemaMissing as exc:
                    result = HealthcheckResult(False, "the database is not set up", str(exc))
                except StorageError as exc:
                    result = HealthcheckResult(False, "the database is not available", str(exc))
                self._cached = (self._monotonic(), result)
            return self._cached[1]

    @abc.abstractmethod
    def _query(self, engine: sa.Engine) -> HealthcheckResult:
        """Queries the database.

        :raises StorageError: when the database does not answer.
        """


class Database(_Backend):
    """The backend ``watcher_sync_database``."""

    _tables = Tables(Kinds())

    def _query(self, engine: sa.Engine) -> HealthcheckResult:
        with translated(), engine.connect() as connection:
            check_revision(connection, self._tables)
            seq = connection.execute(sa.text("SELECT seq FROM journal_head")).scalar_one_or_none()
        if seq is None:
            return HealthcheckResult(False, "the database is not set up", "the journal has no head: run db_sync")
        return HealthcheckResult(True, "OK", f"the journal is at seq {seq}")


class Sources(_Backend):
    """The backend ``watcher_sync_sources``."""

    def _query(self, engine: sa.Engine) -> HealthcheckResult:
        limits = self.oslo_conf.monitoring
        rows, now = list_sources(engine), read_clock(engine)
        found = {
            row.source: problem
            for row in rows
            if (problem := problem_of(row, now, stale_after=limits.stale_after, idle_after=limits.idle_after))
        }
        if found:
            details = "; ".join(f"{source}: {problem}" for source, problem in found.items())
            return HealthcheckResult(False, f"stale sources: {', '.join(found)}", details)
        return HealthcheckResult(True, "OK", f"none of {len(rows)} sources is stale")
