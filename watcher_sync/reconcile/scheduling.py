# SPDX-License-Identifier: Apache-2.0
"""Runs the reconcilers while the engine leads.

A periodic worker checks ten times a second whether a scope is due; it never does the work. Each run has a thread of its
own: a hanging one would delay the end of the process in futurist's executors. A scope has one run at a
time.

A run that failed or is incomplete is repeated after a growing pause. When a scope becomes complete, those that are
incomplete run at once: they may depend on it. A run past its timeout counts as failed, and its scope stays busy until
it ends. An engine that ceases to lead waits shortly for its runs.

A reload applies at once.
"""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client.metrics_core import Metric

from watcher_sync.exceptions import DatabaseUnavailable, StorageError, interrupts, text_of
from watcher_sync.reconcile.base import Reconciler, Report
from watcher_sync.reconcile.scope import ScheduledScope, ScopeState, collect_metrics, refused_deletes_text

LOG = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 1.0
_UNKNOWN: Final = "it is unknown yet whether the inventory is complete"


class Inventories:
    """Whether the inventories of the reconcilers are complete. Any thread may ask; one thread checks.

    It asks each reconciler once a second until its inventory is complete. The answers are in memory, because a check of
    the readiness may not wait for the database. Before the first answer an inventory counts as incomplete.
    """

    def __init__(self, reconcilers: Sequence[Reconciler]) -> None:
        self._open = list(reconcilers)
        """Reconcilers whose inventory is not known to be complete."""
        self._next = float("-inf")
        # Guards _problem.
        self._lock = threading.Lock()
        self._problem: dict[str, str] = {one.name: _UNKNOWN for one in reconcilers if one.has_inventory}

    def check(self, now: float) -> None:
        """Ask the reconcilers, if a second has passed.

        :param now: monotonic seconds.
        """
        if not self._open or now < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        for reconciler in list(self._open):
            try:
                problem = reconciler.inventory_problem()
            except StorageError as exc:
                problem = f"{_UNKNOWN}: {exc}"
            if not problem:
                self._open.remove(reconciler)
            if problem is not None:
                with self._lock:
                    self._problem[reconciler.name] = problem

    def not_ready(self, failing: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
        """Return the check ``inventory`` with its reason; nothing if no reconciler has an inventory.

        :param failing: reconciler -> why its last run failed. An inventory does not know of a run that does not end.
        """
        with self._lock:
            problems = sorted(self._problem.items())
        if not problems:
            return {}
        known = [(why, failing.get(name, "")) for name, why in problems if why]
        return {"inventory": "; ".join(f"{why}: {more}" if more not in why else why for why, more in known)}


_CHECK_INTERVAL_SECONDS = 0.1


class Reconciliation:
    """All scopes of all reconcilers. A :class:`~watcher_sync.engine.services.BackgroundService`."""

    title = "Reconciliation"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        reconcilers: Sequence[Reconciler],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        share: Callable[[], float] = random.random,
        last_gaps: Callable[[], Mapping[str, datetime.datetime]] = dict,
    ) -> None:
        """:param clock: monotonic seconds, the unit of the runs' deadlines.

        :param last_gaps: returns source -> when it last found that events are missing. A change requests all runs.

        :param share: gives a number from 0 to 1 at random, for the jitter.
        """
        self._conf = conf
        self._reconcilers = tuple(reconcilers)
        self._clock = clock
        self._now = now
        self._share = share
        self._last_gaps = last_gaps
        self._known_gaps: dict[str, datetime.datetime] = {}
        """Those that runs were requested for. Used by the worker's thread."""
        self._scopes: dict[tuple[str, str], ScheduledScope] = {}
        self._failing: set[str] = set()
        """Reconcilers whose last call of ``scopes`` failed."""
        self._inventories = Inventories(self._reconcilers)
        self._worker: periodics.PeriodicWorker | None = None
        self._worker_thread: threading.Thread | None = None
        # Guards _scopes and each scope in it, and whether runs may begin. Nothing waits while it is held.
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Start the worker; each scope's first run begins within some seconds."""
        if not self._reconcilers:
            return
        with self._lock:
            self._started = True
            for scope in self._scopes.values():
                scope.expect_first()

        # The decorator marks what it is given, and a bound method cannot be marked.
        @periodics.periodic(spacing=_CHECK_INTERVAL_SECONDS, run_immediately=True)
        def check() -> None:
            self._inventories.check(self._clock())
            self.run_after_gaps()
            self.begin_due_runs()

        self._worker = worker = periodics.PeriodicWorker([(check, (), {})])
        self._worker_thread = threading.Thread(target=worker.start, name="reconcile", daemon=True)
        self._worker_thread.start()

    def begin_stop(self) -> None:
        """Begin no further run."""
        with self._lock:
            self._started = False
        if self._worker is not None:
            self._worker.stop()

    def join(self, timeout: float) -> None:
        """Wait for the current runs, and abandon those that exceed the timeout.

        :param timeout: seconds.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = [scope.thread for scope in self._scopes.values() if scope.thread is not None]
        for thread in (self._worker_thread, *threads):
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._worker = self._worker_thread = None

    def run_now(self, scope: str | None = None) -> list[str]:
        """Begin runs at once, regardless of the interval and the pause after a failure.

        A scope that runs already runs again afterwards.

        :param scope: only scopes of this name; None: all.
        :returns: ``reconciler/scope`` of each; none while the engine does not lead.
        """
        self._refresh_scopes()
        with self._lock:
            if not self._started:
                return []
            requested = [s for s in self._scopes.values() if scope is None or s.name == scope]
            for each in requested:
                each.is_requested = True
                self._begin_if_due(each)
            return [str(each) for each in requested]

    def run_after_gaps(self) -> None:
        """Begin all runs if a source has found that events are missing."""
        found = dict(self._last_gaps())
        new = sorted(source for source, at in found.items() if self._known_gaps.get(source) != at)
        if new:
            self._known_gaps |= found
            LOG.warning("Events of the sources %s are lost: all scopes are reconciled now", ", ".join(new))
            self.run_now()

    def reload(self) -> None:
        """Pass a SIGHUP on to the reconcilers."""
        for reconciler in self._reconcilers:
            reconciler.reload()

    def states(self) -> list[ScopeState]:
        """Return the state of all scopes. For any thread."""
        with self._lock:
            return [scope.state() for scope in self._scopes.values()]

    def not_ready(self) -> Mapping[str, str]:
        """Return the check ``inventory`` with what is incomplete; nothing if no reconciler has an inventory."""
        states = reversed(self.states())
        return self._inventories.not_ready({one.reconciler: one.problem for one in states if one.problem})

    def source_notes(self) -> Mapping[str, str]:
        """Return source -> the deletions that the delete guard refuses, for scopes named after a source."""
        return {
            state.scope: refused_deletes_text(f"{state.reconciler}/{state.scope}", state.report)
            for state in self.states()
            if state.report is not None and state.report.refused_deletes
        }

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all scopes."""
        return collect_metrics(self.states())

    def report(self) -> Mapping[str, Any]:
        """Return a description of all scopes for the Guru report."""
        return {f"{state.reconciler}/{state.scope}": _described(state) for state in self.states()}

    def begin_due_runs(self) -> None:
        """Begin the run of each scope that is due."""
        self._refresh_scopes()
        with self._lock:
            for scope in self._scopes.values():
                self._begin_if_due(scope)

    def _begin_if_due(self, scope: ScheduledScope) -> None:
        scope.check_deadline()
        if not self._started or not scope.is_to_begin():
            return
        thread = threading.Thread(target=self._run, args=(scope,), name=f"reconcile-{scope}", daemon=True)
        scope.begin(thread)
        try:
            thread.start()
        except RuntimeError as exc:  # no more threads
            scope.end(exc)

    def _run(self, scope: ScheduledScope) -> None:
        """One run, in a thread of its own."""
        with self._lock:
            deadline = scope.deadline
        result: Report | BaseException
        try:
            result = scope.reconciler.run(scope.name, deadline=deadline)
            if not isinstance(result, Report):
                raise TypeError(f"{result!r} is not a report")
        except BaseException as exc:  # noqa: BLE001 - the supervised edge: counted and logged by the scope
            result = exc
        with self._lock:
            if scope.end(result):
                # What lacked the entities of this scope may be complete now.
                for other in self._scopes.values():
                    other.is_requested |= other.is_incomplete

    def _refresh_scopes(self) -> None:
        """Add new scopes, request wanted runs, and remove idle scopes that their reconciler no longer names."""
        named: dict[tuple[str, str], Reconciler] = {}
        wanted: set[tuple[str, str]] = set()
        failing: set[str] = set()
        for reconciler in self._reconcilers:
            try:
                scopes = reconciler.scopes()
                named |= {(reconciler.name, scope): reconciler for scope in scopes}
                wanted |= {(reconciler.name, scope) for scope in scopes if reconciler.wants_run(scope)}
            except BaseException as exc:
                if interrupts(exc):
                    raise
                failing.add(reconciler.name)
                if reconciler.name not in self._failing:
                    bug = None if isinstance(exc, DatabaseUnavailable) else exc
                    LOG.error(
                        "The reconciler %s cannot name its scopes: %s", reconciler.name, text_of(exc), exc_info=bug
                    )
        self._failing = failing
        with self._lock:
            for key, reconciler in named.items():
                if key not in self._scopes:
                    self._scopes[key] = ScheduledScope(
                        reconciler, key[1], self._conf, clock=self._clock, now=self._now, share=self._share
                    )
            for key, scope in list(self._scopes.items()):
                scope.is_requested |= key in wanted
                if key not in named and key[0] not in failing and not scope.running:
                    del self._scopes[key]


def _described(state: ScopeState) -> dict[str, Any]:
    def at(moment: datetime.datetime | None) -> str:
        return moment.isoformat(timespec="seconds") if moment is not None else "never"

    return {
        "running": state.running,
        "last started": at(state.last_started),
        "last ended": at(state.last_finished),
        "last success": at(state.last_ok),
        "failures in a row": state.failures,
        "problem": state.problem or "none",
        "left alone until": at(state.open_until) if state.open_until is not None else "not at all",
    }
