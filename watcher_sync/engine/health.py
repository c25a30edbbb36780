# SPDX-License-Identifier: Apache-2.0
"""Readiness of an engine, with a reason for each failed check.

An engine is ready when it leads its group, the database is available, no event holds its thread, and no source is
stale. After an unclean end, the events that were in hand have to be committed. With the reconciler ``nova``, the
inventory has to be complete, too. A standby is healthy but not ready, so that a load balancer or an operator can see
which engine leads.

Liveness means less: the process answers, the engine's loop has not ended, and no event has held it for very long. An
outage of the database or of a broker does not affect liveness, because a restart repairs neither.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from watcher_sync.engine.engine import Engine
from watcher_sync.engine.services import HasReadiness
from watcher_sync.storage.groups.source_status import problem_of


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one check."""

    ok: bool
    detail: str = ""
    """The reason of a failure, in one line."""


class Readiness(msgspec.Struct, frozen=True):
    """The body of ``/readyz``."""

    ready: bool
    checks: dict[str, Any]
    """A :class:`Check` of ``database``, ``lease``, ``watchdog``, ``suspects`` and ``inventory``; for ``sources`` one of
    each name."""


def readiness(engine: Engine, now: datetime.datetime) -> Readiness:
    """The readiness at the time ``now``; reads memory only."""
    problem = engine.database_problem
    database = Check(problem is None, f"the database is unavailable: {problem}" if problem is not None else "")
    lease = Check(engine.leading, "" if engine.leading else "another engine leads the group, or none does yet")
    sources = {name: Check(not why, why) for name, why in stale_sources(engine, now).items()}
    problem = engine.watchdog.problem
    watchdog = Check(not problem, problem)
    problem = engine.suspects.problem
    suspects = Check(not problem, problem)
    own = {"database": database, "lease": lease, "watchdog": watchdog, "suspects": suspects}
    ready = all(check.ok for check in own.values()) and all(check.ok for check in sources.values())
    checks: dict[str, Any] = {**own, "sources": sources}
    for service in engine.services:
        if isinstance(service, HasReadiness):
            more = {name: Check(not why, why) for name, why in service.not_ready().items()}
            checks |= more
            ready = ready and all(check.ok for check in more.values())
    return Readiness(ready, checks)


def stale_sources(engine: Engine, now: datetime.datetime) -> dict[str, str]:
    """source -> why it is stale by the limits of ``[monitoring]``; an empty text for one that is not."""
    group = engine.conf.monitoring
    return {
        row.source: problem_of(row, now, stale_after=group.stale_after, idle_after=group.idle_after)
        for row in engine.source_rows()
    }
