# SPDX-License-Identifier: Apache-2.0
"""What runs the reconcilers while the engine leads.

A periodic worker looks ten times a second whether a scope is due; it never does the work. Each run has a thread of its
own, because a live system that hangs must cost nobody else anything: not a place in a pool, and not the end of the
process, which waits for the threads of futurist's executors without a limit. A scope has one run at a time.

Whatever a reconciler raises ends that run only. A run that is past its time counts as failed, and its scope stays
busy until it ends. Runs that go on when the engine ceases to lead are waited for shortly; what they still write is one
commit like any other process's, and decided by versions.

The interval and the other options of ``[reconcile]`` are read at each look, so that a reload counts at once.
"""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client.metrics_core import Metric

from watcher_sync.reconcile import metrics
from watcher_sync.reconcile.base import Reconciler, Report
from watcher_sync.reconcile.scope import ScheduledScope, ScopeState

LOG = logging.getLogger(__name__)

_LOOK = 0.1
"""Seconds between two looks."""


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
    ) -> None:
        """:param clock: seconds, growing; what the runs' deadlines are told in.

        :param share: gives a number from 0 to 1 at random, for the jitter.
        """
        self._conf = conf
        self._reconcilers = tuple(reconcilers)
        self._clock = clock
        self._now = now
        self._share = share
        self._scopes: dict[tuple[str, str], ScheduledScope] = {}
        self._failing: set[str] = set()
        """Reconcilers that could not name their scopes when they were last asked."""
        self._worker: periodics.PeriodicWorker | None = None
        self._looking: threading.Thread | None = None
        # Guards _scopes and each scope in it, and whether runs may begin. Nothing waits while it is held.
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Begin: each scope's first run comes within some seconds."""
        if not self._reconcilers:
            return
        with self._lock:
            self._started = True
            for scope in self._scopes.values():
                scope.expect_first()

        # The decorator marks what it is given, and a bound method cannot be marked.
        @periodics.periodic(spacing=_LOOK, run_immediately=True)
        def look() -> None:
            self.look()

        self._worker = worker = periodics.PeriodicWorker([(look, (), {})])
        self._looking = threading.Thread(target=worker.start, name="reconcile", daemon=True)
        self._looking.start()

    def begin_stop(self) -> None:
        """Begin no run any more."""
        with self._lock:
            self._started = False
        if self._worker is not None:
            self._worker.stop()

    def join(self, timeout: float) -> None:
        """Wait so many seconds at most for the runs that go on; one that hangs is left behind."""
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = [scope.thread for scope in self._scopes.values() if scope.thread is not None]
        for thread in (self._looking, *threads):
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._worker = self._looking = None

    def run_now(self, scope: str | None = None) -> list[str]:
        """Begin at once, whatever the interval and the breaker say.

        A scope that is being compared is compared again when that has ended.

        :param scope: only scopes of this name; None: all.
        :returns: ``reconciler/scope`` of each; none while the engine does not lead.
        """
        self._refresh_scopes()
        with self._lock:
            if not self._started:
                return []
            wanted = [s for s in self._scopes.values() if scope is None or s.name == scope]
            for found in wanted:
                found.asked = True
                self._look_at(found)
            return [str(found) for found in wanted]

    def states(self) -> list[ScopeState]:
        """All scopes as they are now; for any thread."""
        with self._lock:
            return [scope.state() for scope in self._scopes.values()]

    def collect(self) -> Iterable[Metric]:
        """The figures of this moment."""
        return metrics.collect(self.states())

    def report(self) -> Mapping[str, Any]:
        """All scopes in words."""
        return {f"{state.reconciler}/{state.scope}": _told(state) for state in self.states()}

    def look(self) -> None:
        """Begin what is due."""
        self._refresh_scopes()
        with self._lock:
            for scope in self._scopes.values():
                self._look_at(scope)

    def _look_at(self, scope: ScheduledScope) -> None:
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
            scope.end(result)

    def _refresh_scopes(self) -> None:
        """Add the scopes that are new, and forget those that a reconciler names no more and that do not run."""
        named: dict[tuple[str, str], Reconciler] = {}
        kept: set[str] = set()
        for reconciler in self._reconcilers:
            try:
                named |= {(reconciler.name, scope): reconciler for scope in reconciler.scopes()}
            except Exception as exc:  # the supervised edge: what it named before stays
                kept.add(reconciler.name)
                if reconciler.name not in self._failing:
                    LOG.exception("The reconciler %s cannot name its scopes: %s", reconciler.name, exc)
        self._failing = kept
        with self._lock:
            for key, reconciler in named.items():
                if key not in self._scopes:
                    self._scopes[key] = ScheduledScope(
                        reconciler, key[1], self._conf, clock=self._clock, now=self._now, share=self._share
                    )
            for key, scope in list(self._scopes.items()):
                if key not in named and key[0] not in kept and not scope.running:
                    del self._scopes[key]


def _told(state: ScopeState) -> dict[str, Any]:
    def at(moment: datetime.datetime | None) -> str:
        return moment.isoformat(timespec="seconds") if moment is not None else "never"

    return {
        "running": state.running,
        "last started": at(state.last_started),
        "last ended": at(state.last_finished),
        "last success": at(state.last_ok),
        "failures in a row": state.failures,
        "trouble": state.trouble or "none",
        "left alone until": at(state.open_until) if state.open_until is not None else "not at all",
    }
