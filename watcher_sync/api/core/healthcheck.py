# SPDX-License-Identifier: Apache-2.0
"""``/healthcheck``: whether this API can do its work, for load balancers.

oslo.middleware answers it, outside of authentication, and asks its backends. Two of them are ours, named by
entry points in ``oslo.middleware.healthcheck`` and used unless ``[healthcheck] backends`` says otherwise:

* ``watcher_sync_database``: the database answers, and has our schema.
* ``watcher_sync_sources``: the engines say of every source that it is fresh (see ``[monitoring]``).

Whoever asks needs no token, so an answer says little (details only with ``[healthcheck] detailed``), and is
kept for a second: however many ask, the database is asked once.
"""

from __future__ import annotations

import abc
import datetime
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck import opts
from oslo_middleware.healthcheck.pluginbase import HealthcheckBaseExtension, HealthcheckResult

from watcher_sync.conf.opts import HEALTH_BACKENDS
from watcher_sync.exceptions import StorageError
from watcher_sync.storage.database import open_database, translated
from watcher_sync.storage.source_status import list_sources, trouble_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/healthcheck"

_KEPT = 1.0
"""Seconds for which an answer is given again."""


def wrap(application: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """The application with ``/healthcheck`` in front of it, and in front of nothing else.

    :param conf: with ``[database]`` and ``[monitoring]``.
    :raises ConfigError: when ``[database] connection`` cannot work.
    """
    conf.register_opts(opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_default("backends", HEALTH_BACKENDS, group="healthcheck")
    # A caller outside of [healthcheck] allowed_source_ranges is passed on to the application.
    check = healthcheck.Healthcheck(application, conf)

    def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        chosen: Any = check if environ.get("PATH_INFO") == PATH else application
        return chosen(environ, start_response)  # type: ignore[no-any-return]

    return wrapped


class _Backend(HealthcheckBaseExtension, abc.ABC):
    """Asks the database, at most once a second."""

    def __init__(
        self,
        oslo_conf: cfg.ConfigOpts,
        conf: dict[str, Any],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(oslo_conf, conf)
        self._engine = open_database(oslo_conf)
        self._monotonic = monotonic
        # Guards the kept answer, and lets one caller ask while the others wait for what it hears.
        self._lock = threading.Lock()
        self._kept: tuple[float, HealthcheckResult] | None = None

    def healthcheck(self, server_port: int) -> HealthcheckResult:
        """Called for each request."""
        with self._lock:
            if self._kept is None or self._monotonic() - self._kept[0] >= _KEPT:
                try:
                    result = self._ask(self._engine)
                except StorageError as exc:
                    result = HealthcheckResult(False, "the database is not available", str(exc))
                self._kept = (self._monotonic(), result)
            return self._kept[1]

    @abc.abstractmethod
    def _ask(self, engine: sa.Engine) -> HealthcheckResult:
        """:raises StorageError: when the database does not answer."""


class Database(_Backend):
    """The backend ``watcher_sync_database``."""

    def _ask(self, engine: sa.Engine) -> HealthcheckResult:
        with translated(), engine.connect() as connection:
            seq = connection.execute(sa.text("SELECT seq FROM journal_head")).scalar_one_or_none()
        if seq is None:
            return HealthcheckResult(False, "the database is not set up", "the journal has no head: run db_sync")
        return HealthcheckResult(True, "OK", f"the journal is at seq {seq}")


class Sources(_Backend):
    """The backend ``watcher_sync_sources``."""

    def _ask(self, engine: sa.Engine) -> HealthcheckResult:
        limits = self.oslo_conf.monitoring
        now = datetime.datetime.now(datetime.UTC)
        rows = list_sources(engine)
        found = {
            row.source: trouble
            for row in rows
            if (trouble := trouble_of(row, now, stale_after=limits.stale_after, idle_after=limits.idle_after))
        }
        if found:
            details = "; ".join(f"{source}: {trouble}" for source, trouble in found.items())
            return HealthcheckResult(False, f"stale sources: {', '.join(found)}", details)
        return HealthcheckResult(True, "OK", f"{len(rows)} sources are fresh")
