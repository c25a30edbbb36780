# SPDX-License-Identifier: Apache-2.0
"""Whether an engine is ready, and if not, which part of it is why.

Ready means: this engine leads its group, the database takes its commits, and every source is fresh. An
engine that stands by is well and not ready, so a balancer or an operator sees who leads. Alive means less:
the process answers and its loop has not ended. An outage of the database or the broker must not look like
death, because a restart mends neither.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from watcher_sync.engine.engine import Engine
from watcher_sync.storage.source_status import trouble_of


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that has to be well."""

    ok: bool
    detail: str = ""
    """Why it is not, in one line."""


class Readiness(msgspec.Struct, frozen=True):
    """The body of ``/readyz``."""

    ready: bool
    checks: dict[str, Any]
    """``database`` and ``lease``: a :class:`Check`; ``sources``: name -> :class:`Check`."""


def readiness(engine: Engine, now: datetime.datetime) -> Readiness:
    """The engine as it is now; reads memory only."""
    away = engine.database_trouble
    database = Check(away is None, f"the database is away: {away}" if away is not None else "")
    lease = Check(engine.leading, "" if engine.leading else "another engine leads the group, or none does yet")
    sources = {name: Check(not why, why) for name, why in stale_sources(engine, now).items()}
    ready = database.ok and lease.ok and all(check.ok for check in sources.values())
    return Readiness(ready, {"database": database, "lease": lease, "sources": sources})


def stale_sources(engine: Engine, now: datetime.datetime) -> dict[str, str]:
    """Source -> why it is stale, empty for a fresh one; by the limits of ``[monitoring]``."""
    group = engine.conf.monitoring
    return {
        row.source: trouble_of(row, now, stale_after=group.stale_after, idle_after=group.idle_after)
        for row in engine.source_rows()
    }
