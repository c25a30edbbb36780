# SPDX-License-Identifier: Apache-2.0
"""The guru meditation report on SIGUSR2.

oslo.reports writes the report to stderr, or to a file in ``[oslo_reports] log_dir``. With ``file_event_handler`` a
touched file has the same effect as the signal. The report has the library's sections: package, threads, processes, and
configuration without secrets. This module adds sections for the engine, its sources, its model, the leases and the
background services.

The master process has one child, which runs the engine. An operator may send the signal to either of them: the child
reports, and the master forwards it. A thread of its own makes the report, because the main thread may hold a lock that
the report needs. It must also handle SIGTERM while a database does not answer.
"""

from __future__ import annotations

import importlib.metadata
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

import psutil
import sqlalchemy as sa
from oslo_config import cfg
from oslo_reports import guru_meditation_report
from oslo_reports.generators import conf as conf_generators
from oslo_reports.generators import process as process_generators
from oslo_reports.generators import threading as thread_generators
from oslo_reports.generators import version as version_generators
from oslo_reports.models.with_default_views import ModelWithDefaultViews

from watcher_sync.engine.engine import Engine
from watcher_sync.engine.services import BackgroundService
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.storage.database.database import translated

_MAX_LEASES = 100

Section = Callable[[], ModelWithDefaultViews]


class _ReportVersion:
    """The version interface that oslo.reports expects."""

    def vendor_string(self) -> str:
        return "watcher_sync"

    def product_string(self) -> str:
        return "watcher-sync-engine"

    def version_string_with_package(self) -> str:
        return importlib.metadata.version("watcher-sync")


def set_up(conf: cfg.ConfigOpts, engine: Engine) -> None:
    """Write a report on this engine at each SIGUSR2. Call it in the main thread."""
    report = make_report(conf, engine)
    if threading.current_thread() is threading.main_thread():
        report.setup_autorun(_ReportVersion(), service_name="watcher-sync-engine", conf=conf)


def forward_signal() -> None:
    """Have the master process forward SIGUSR2 to its child; the default action would end the master."""

    def forward(_number: int, _frame: Any) -> None:
        for child in psutil.Process().children():
            child.send_signal(signal.SIGUSR2)

    signal.signal(signal.SIGUSR2, forward)


def make_report(conf: cfg.ConfigOpts, engine: Engine) -> type[guru_meditation_report.TextGuruMeditation]:
    """The report class of this engine: ``report(version).run()`` returns the text."""
    ours: dict[str, Section] = {
        "Engine": lambda: _model(_engine_section(engine)),
        "Sources": lambda: _model(_sources_section(engine)),
        "Model": lambda: _model(_model_section(engine)),
        "Watchdog": lambda: _model(engine.watchdog.report()),
        "Leases": lambda: _model(_leases_section(engine)),
        **{service.title: _service_section(service) for service in engine.services},
    }

    class EngineReport(guru_meditation_report.TextGuruMeditation):
        """Has the sections of this engine, and this engine's configuration instead of ``cfg.CONF``."""

        @classmethod
        def handle_signal(cls, *args: Any) -> None:
            """Report in a thread of its own."""
            threading.Thread(target=super().handle_signal, args=args, name="report", daemon=True).start()

        def _readd_sections(self) -> None:
            del self.sections[self.start_section_index :]
            self.add_section("Package", version_generators.PackageReportGenerator(self.version_obj))
            for title, section in ours.items():
                self.add_section(title, section)
            self.add_section("Threads", thread_generators.ThreadReportGenerator(self.traceback))
            self.add_section("Processes", process_generators.ProcessReportGenerator())
            self.add_section("Configuration", conf_generators.ConfigReportGenerator(conf))

    return EngineReport


def _model(values: Mapping[str, Any]) -> ModelWithDefaultViews:
    return ModelWithDefaultViews(_escaped(dict(values)))


def _escaped(value: Any) -> Any:
    """The value with escaped texts: names and error texts come from other systems."""
    if isinstance(value, str):
        return escaped(value)
    return {escaped(str(k)): _escaped(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _engine_section(engine: Engine) -> dict[str, Any]:
    stats = engine.stats
    outcomes: dict[str, dict[str, int]] = {}
    for (source, outcome), count in list(stats.outcomes.items()):
        outcomes.setdefault(source, {})[outcome.value] = count
    return {
        "leading": engine.leading,
        "database": engine.database_problem or "available",
        "waiting in the intake": engine.intake.waiting(),
        "commits": stats.commits,
        "conflicts": stats.conflicts,
        "refused batches": stats.refused,
        "events": outcomes,
        "unclean ends": engine.suspects.unclean_ends,
        "suspects": engine.suspects.problem or "none",
    }


def _sources_section(engine: Engine) -> dict[str, Any]:
    return {
        row.source: {
            "state": f"{row.state} since {row.since.isoformat(timespec='seconds')}",
            "detail": row.detail,
            "lag": row.lag,
            "last event": row.last_event_at.isoformat(timespec="seconds") if row.last_event_at else None,
            "reconnects": row.reconnects,
            "restarts": row.restarts,
        }
        for row in engine.source_rows()
    }


def _model_section(engine: Engine) -> dict[str, Any]:
    snapshot = engine.model.snapshot()
    found: dict[str, Any] = {"seq": snapshot.generation}
    found["entities"] = {kind: snapshot.count(kind) for kind in snapshot.kinds}
    stored = engine.stored_counts()
    if stored is not None:
        found["quarantined events"] = stored.quarantined
        found["parked events"] = stored.parked
        found["drifts"] = dict(stored.drifts)
    return found


def _service_section(service: BackgroundService) -> Section:
    return lambda: _model(service.report())


def _leases_section(engine: Engine) -> dict[str, Any]:
    table = engine.store.tables.leases
    query = sa.select(table).order_by(table.c.name).limit(_MAX_LEASES)
    found: dict[str, Any] = {"this process": {"name": engine.lease.name, "holder": engine.lease.holder}}
    try:
        with translated(), engine.store.database.connect() as connection:
            rows = connection.execute(query).all()
    except DatabaseUnavailable as exc:
        return {**found, "the table": f"cannot be read: {exc}"}
    for row in rows:
        found[f"lease {row.name}"] = {
            "holder": row.holder or "none",
            "since": row.since.isoformat(timespec="seconds"),
            "heartbeat": row.heartbeat_at.isoformat(timespec="seconds"),
            "token": row.token,
        }
    return found
