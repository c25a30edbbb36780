# SPDX-License-Identifier: Apache-2.0
"""The guru meditation report: what an engine is doing, in words, at the moment of a signal.

oslo.reports writes it on SIGUSR2 to stderr, or to a file in ``[oslo_reports] log_dir``; with
``file_event_handler`` a file that is touched does instead of the signal. To its own sections (package,
threads, processes, configuration without secrets) it gets the sources, the model, the leases, and what works beside
the batches, such as reconciliation.

The process that runs the engine is the master's one child. Both may be sent the signal: the child
reports, the master passes it on. The report is made in the child's main thread, which only waits for
signals, so the engine goes on meanwhile.
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
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.storage.database import translated

_MOST_LEASES = 100

Section = Callable[[], ModelWithDefaultViews]


class _Version:
    """What oslo.reports asks of a package."""

    def vendor_string(self) -> str:
        return "watcher_sync"

    def product_string(self) -> str:
        return "watcher-sync-engine"

    def version_string_with_package(self) -> str:
        return importlib.metadata.version("watcher-sync")


def set_up(conf: cfg.ConfigOpts, engine: Engine) -> None:
    """Have this process report on this engine when it is asked to. For its main thread."""
    report = make_report(conf, engine)
    if threading.current_thread() is threading.main_thread():
        report.setup_autorun(_Version(), service_name="watcher-sync-engine", conf=conf)


def pass_on() -> None:
    """Have the master hand the signal to its child, instead of dying of it."""

    def hand_on(_number: int, _frame: Any) -> None:
        for child in psutil.Process().children():
            child.send_signal(signal.SIGUSR2)

    signal.signal(signal.SIGUSR2, hand_on)


def make_report(conf: cfg.ConfigOpts, engine: Engine) -> type[guru_meditation_report.TextGuruMeditation]:
    """The class of this engine's reports: ``report(version).run()`` is the text."""
    ours: dict[str, Section] = {
        "Engine": lambda: _model(_engine_section(engine)),
        "Sources": lambda: _model(_sources_section(engine)),
        "Model": lambda: _model(_model_section(engine)),
        "Leases": lambda: _model(_leases_section(engine)),
        **{companion.title: _companion_section(companion) for companion in engine.companions},
    }

    class Report(guru_meditation_report.TextGuruMeditation):
        """Sections of this engine instead of those of the process-wide configuration."""

        def _readd_sections(self) -> None:
            del self.sections[self.start_section_index :]
            self.add_section("Package", version_generators.PackageReportGenerator(self.version_obj))
            for title, section in ours.items():
                self.add_section(title, section)
            self.add_section("Threads", thread_generators.ThreadReportGenerator(self.traceback))
            self.add_section("Processes", process_generators.ProcessReportGenerator())
            self.add_section("Configuration", conf_generators.ConfigReportGenerator(conf))

    return Report


def _model(values: Mapping[str, Any]) -> ModelWithDefaultViews:
    return ModelWithDefaultViews(dict(values))


def _engine_section(engine: Engine) -> dict[str, Any]:
    tally = engine.tally
    outcomes: dict[str, dict[str, int]] = {}
    for (source, outcome), count in list(tally.outcomes.items()):
        outcomes.setdefault(source, {})[outcome.value] = count
    return {
        "leading": engine.leading,
        "database": engine.database_trouble or "in use",
        "waiting in the intake": engine.intake.waiting(),
        "commits": tally.commits,
        "conflicts": tally.conflicts,
        "refused batches": tally.refused,
        "events": outcomes,
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
    kept = engine.kept()
    if kept is not None:
        found |= {"quarantined events": kept.quarantined, "parked events": kept.parked, "drifts": dict(kept.drifts)}
    return found


def _companion_section(companion: BackgroundService) -> Section:
    return lambda: _model(companion.report())


def _leases_section(engine: Engine) -> dict[str, Any]:
    table = engine.store.tables.leases
    query = sa.select(table).order_by(table.c.name).limit(_MOST_LEASES)
    found: dict[str, Any] = {"this process": {"name": engine.lease.name, "holder": engine.lease.holder}}
    try:
        with translated(), engine.store.database.connect() as connection:
            rows = connection.execute(query).all()
    except DatabaseUnavailable as exc:
        return {**found, "the table": f"cannot be read: {exc}"}
    for row in rows:
        found[f"lease {row.name}"] = {
            "holder": row.holder or "nobody",
            "since": row.since.isoformat(timespec="seconds"),
            "heartbeat": row.heartbeat_at.isoformat(timespec="seconds"),
            "token": row.token,
        }
    return found
