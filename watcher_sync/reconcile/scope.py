# SPDX-License-Identifier: Apache-2.0
"""One scope: when it is due, whether it runs, and the results of its runs. It logs each change of its state.

The owner holds a lock around every call of a scope, and no method waits. :func:`collect_metrics` makes the metrics of
states. Their label ``scope`` is a name from the configuration, such as a cluster's.
"""

from __future__ import annotations

import collections
import datetime
import enum
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from watcher_sync.commit.stats import SECONDS, Distribution
from watcher_sync.exceptions import DatabaseUnavailable, ReconcileError
from watcher_sync.reconcile.base import Reconciler, Report

LOG = logging.getLogger(__name__)

_MAX_FIRST_DELAY_SECONDS = 5.0
"""The first run begins within them."""
_FIRST_RETRY_SECONDS = 5.0
"""Longest pause after the first run in a row that failed or was incomplete."""
_MAX_SHOWN_WRITES = 10
"""Entities that cannot be stored, as far as the log and the status name them."""


class RunOutcome(enum.Enum):
    """The result of a run that was due."""

    OK = "ok"
    PARTIAL = "partial"
    """Something could not be listed; the rest was compared."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It did not begin: the previous run continues."""


class ScopeState(msgspec.Struct, frozen=True, kw_only=True):
    """A scope as it is at one moment, for metrics and reports."""

    reconciler: str
    scope: str
    running: bool
    last_started: datetime.datetime | None
    last_finished: datetime.datetime | None
    last_ok: datetime.datetime | None
    """When everything was compared last. Aware UTC, like the others."""
    failures: int
    """Failed runs in a row."""
    problem: str
    """Why the last run failed, what it could not list, or what cannot be stored; empty if nothing of that happened."""
    open_until: datetime.datetime | None
    """When the scope is tried again, after ``breaker_threshold`` failures; None while it fails less often."""
    report: Report | None
    """Of the last run that had one."""
    runs: Mapping[RunOutcome, int]
    seconds: Distribution


class ScheduledScope:
    """One scope of one reconciler."""

    def __init__(
        self,
        reconciler: Reconciler,
        name: str,
        conf: cfg.ConfigOpts,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime.datetime],
        share: Callable[[], float],
    ) -> None:
        """:param share: gives a number from 0 to 1 at random: how much of the jitter is added."""
        self.reconciler = reconciler
        self.name = name
        self.thread: threading.Thread | None = None
        """The thread of the current run; None while none runs."""
        self.deadline = 0.0
        """``clock`` time by which the current run is to end."""
        self.is_requested = False
        """Whether a run is requested at once, regardless of the interval and the pause after a failure."""
        self._conf = conf
        self._clock = clock
        self._now = now
        self._share = share
        self._failures = 0
        """Failed runs in a row."""
        self._pause = 0.0
        """Longest pause after the last run, in seconds; 0 after a complete one."""
        self._retry_at: float | None = None
        """``clock`` time of the next attempt; None after a complete run."""
        self._counted = False
        """Whether the current run was counted as failed already."""
        self._began = 0.0
        self._last_started: datetime.datetime | None = None
        self._last_finished: datetime.datetime | None = None
        self._last_ok: datetime.datetime | None = None
        self._problem = ""
        self._logged: set[str] = set()
        self._report: Report | None = None
        self._runs: collections.Counter[RunOutcome] = collections.Counter()
        self._seconds = Distribution((*SECONDS, 60.0, 300.0))
        self.expect_first()

    def __str__(self) -> str:
        return f"{self.reconciler.name}/{self.name}"

    @property
    def running(self) -> bool:
        """Whether a run continues, in time or not."""
        return self.thread is not None

    # When it is due

    def expect_first(self) -> None:
        """Have the next run begin within some seconds from now."""
        self._counted_from = self._clock()
        self._part = self._share()
        self._first = True
        self._retry_at = None

    def _interval(self) -> float:
        own = self.reconciler.interval(self.name)
        return float(self._conf.reconcile.interval) if own is None else own

    def _due_at(self) -> float:
        interval = self._interval()
        jitter = self._part * float(self._conf.reconcile.jitter) * interval
        due = self._counted_from + (min(_MAX_FIRST_DELAY_SECONDS, jitter) if self._first else interval + jitter)
        if self._retry_at is None or self.running:
            return due
        return self._retry_at if self._is_open else min(due, self._retry_at)

    def _retry_after_pause(self, longest: float) -> None:
        """Have the scope run again soon: each pause is twice as long, up to a limit, with jitter."""
        self._pause = min(longest, max(_FIRST_RETRY_SECONDS, 2 * self._pause))
        self._retry_at = self._clock() + self._pause * (1.0 - self._share() / 2)

    @property
    def _is_open(self) -> bool:
        return self._failures >= int(self._conf.reconcile.breaker_threshold)

    def _count_from(self, moment: float) -> None:
        self._counted_from = moment
        self._part = self._share()
        self._first = False

    def is_to_begin(self) -> bool:
        """Whether a run is to begin now. A run that is due and cannot begin counts as skipped."""
        moment = self._clock()
        if self.running:
            if moment >= self._due_at():
                self._runs[RunOutcome.SKIPPED] += 1
                self._count_from(moment)
            return False
        return self.is_requested or moment >= self._due_at()

    # Begin and end of a run

    def begin(self, thread: threading.Thread) -> None:
        """A run begins in this thread."""
        self.thread = thread
        self.is_requested = False
        self._began = self._clock()
        self._last_started = self._now()
        self._count_from(self._began)
        timeout = self.reconciler.timeout(self.name)
        self.deadline = self._began + (float(self._conf.reconcile.timeout) if timeout is None else timeout)
        self._counted = False

    def check_deadline(self) -> None:
        """Count a run that exceeds its deadline as failed, once."""
        if self.running and not self._counted and self._clock() >= self.deadline:
            self._counted = True
            seconds = self._clock() - self._began
            self._fail(f"it has not ended within {seconds:.1f} s and is left behind", key="timeout")

    @property
    def is_incomplete(self) -> bool:
        """Whether the last run compared only a part."""
        return self._pause > 0 and not self._failures

    def end(self, result: Report | BaseException) -> bool:
        """The run is over.

        :returns: whether the scope is complete now, and was not before.
        """
        seconds = self._clock() - self._began
        self.thread = None
        self._last_finished = self._now()
        longest = float(self._conf.reconcile.breaker_reset_timeout)
        was_complete = self._last_ok is not None and not self._pause
        if self._counted:
            LOG.info("The reconciliation of %s that was left behind has ended after %.1f s", self, seconds)
            self._retry_after_pause(longest)
            return False
        self._seconds.observe(seconds)
        if isinstance(result, Report):
            self._succeed(result)
            if result.complete:
                self._pause, self._retry_at = 0.0, None
                return not was_complete
            longest = self._interval()
        elif isinstance(result, ReconcileError):
            self._fail(str(result), key="error")
        elif isinstance(result, DatabaseUnavailable):
            self._fail(f"the database is unavailable: {result}", key="database")
        else:
            self._fail(f"{type(result).__name__}: {result}", key=type(result).__name__, bug=result)
            longest = self._interval()  # what may have listed everything is not repeated each minute
        self._retry_after_pause(longest)
        return False

    def _succeed(self, report: Report) -> None:
        before = self._report
        self._report = report
        if self._failures:
            LOG.info("The reconciliation of %s works again", self)
        self._failures = 0
        problem = "; ".join(f"{resource}: {why}" for resource, why in sorted(report.failures.items()))
        if not report.complete:
            problem = problem or "not everything could be compared"
            self._log_once("partial", f"The reconciliation of {self} is incomplete: {problem}")
            self._runs[RunOutcome.PARTIAL] += 1
        else:
            if "partial" in self._logged:
                LOG.info("The reconciliation of %s is complete again", self)
            self._runs[RunOutcome.OK] += 1
            self._last_ok = self._last_finished
        self._logged &= set() if report.complete else {"partial"}
        self._problem = "; ".join(filter(None, (problem, _unwritten(report))))
        self._log_refused_deletes(report, before.refused_deletes if before is not None else {})
        self._log_refused_writes(report, before.refused_writes if before is not None else {})
        if report.written or report.deleted:
            LOG.info(
                "Reconciled %s: %d entities written, %d deleted, in %.2f s with %d requests",
                self,
                report.written,
                report.deleted,
                report.seconds,
                report.requests,
            )

    def _log_refused_deletes(self, report: Report, before: Mapping[str, int]) -> None:
        """Log one line when the deletions that the delete guard refuses change."""
        refused = report.refused_deletes
        if refused and refused != before:
            LOG.error("%s", refused_deletes_text(str(self), report))
        elif before and not refused:
            LOG.info("The delete guard refuses no deletion in %s any more", self)

    def _log_refused_writes(self, report: Report, before: Mapping[str, str]) -> None:
        """Log one line for each entity that cannot be stored, once."""
        refused = report.refused_writes
        new = [entity for entity in refused if entity not in before]
        for entity in new[:_MAX_SHOWN_WRITES]:
            LOG.warning("%s cannot be stored: %s", entity, refused[entity])
        if len(new) > _MAX_SHOWN_WRITES:
            LOG.warning("%d more entities of %s cannot be stored", len(new) - _MAX_SHOWN_WRITES, self)
        if before and not refused:
            LOG.info("All entities of %s can be stored again", self)

    def _fail(self, why: str, *, key: str, bug: BaseException | None = None) -> None:
        self._runs[RunOutcome.FAILED] += 1
        self._problem = why
        self._log_once(key, f"The reconciliation of {self} fails: {why}", bug)
        was_open = self._is_open
        self._failures += 1
        if self._is_open and not was_open:
            LOG.warning(
                "The reconciliation of %s failed %d times in a row: retrying with pauses of up to %.0f s",
                self,
                self._failures,
                self._conf.reconcile.breaker_reset_timeout,
            )

    def _log_once(self, key: str, line: str, bug: BaseException | None = None) -> None:
        """Log a warning unless its key was logged since the last success.

        :param bug: an unexpected exception; it is logged with its traceback.
        """
        if key not in self._logged:
            self._logged.add(key)
            LOG.warning("%s", line, exc_info=bug)

    def state(self) -> ScopeState:
        """Return the current state."""
        left = max(0.0, (self._retry_at or 0.0) - self._clock())
        return ScopeState(
            reconciler=self.reconciler.name,
            scope=self.name,
            running=self.running,
            last_started=self._last_started,
            last_finished=self._last_finished,
            last_ok=self._last_ok,
            failures=self._failures,
            problem=self._problem,
            open_until=self._now() + datetime.timedelta(seconds=left) if self._is_open else None,
            report=self._report,
            runs=dict(self._runs),
            seconds=self._seconds,
        )


def _unwritten(report: Report) -> str:
    """Return which entities cannot be stored, and why; empty if there is none."""
    shown = [f"{entity} cannot be stored: {why}" for entity, why in report.refused_writes.items()][:_MAX_SHOWN_WRITES]
    more = len(report.refused_writes) - len(shown)
    return "; ".join([*shown, f"{more} more cannot be stored"] if more else shown)


def refused_deletes_text(where: str, report: Report) -> str:
    """Return which deletions the delete guard refused, and the command that confirms them."""
    shares = ", ".join(f"{report.refused_share(kind)} {kind}" for kind in sorted(report.refused_deletes))
    return (
        f"The delete guard refuses deletions in {where}: {shares}, more than [reconcile] max_delete_percent. "
        f"watcher-sync-manage reconcile --allow-deletes {report.scope} confirms them"
    )


PREFIX = "watcher_sync_reconcile_"

_LABELS = ("reconciler", "scope")


def collect_metrics(states: Iterable[ScopeState]) -> Iterator[Metric]:
    """Yield the metrics of all scopes."""
    runs = CounterMetricFamily(
        f"{PREFIX}runs", "Reconciliations that were due, by outcome.", labels=[*_LABELS, "outcome"]
    )
    seconds = HistogramMetricFamily(
        f"{PREFIX}seconds", "Seconds of a reconciliation that ended in time.", labels=_LABELS
    )
    succeeded = _gauge("last_success_timestamp_seconds", "When a reconciliation last compared the whole scope.")
    opened = _gauge("breaker_open", "1 while the last [reconcile] breaker_threshold runs of the scope failed.")
    refused = _gauge("braked_deletions", "Deletions that the delete guard refused in the last reconciliation.")
    unwritten = _gauge("refused_writes", "Entities that could not be stored in the last reconciliation.")
    for state in states:
        label = [state.reconciler, state.scope]
        for outcome in RunOutcome:
            runs.add_metric([*label, outcome.value], state.runs.get(outcome, 0))
        measured = state.seconds
        bounds = [*(str(float(bound)) for bound in measured.bounds), "+Inf"]
        reached: Sequence[int] = [*itertools.accumulate(measured.counts)]
        seconds.add_metric(label, buckets=list(zip(bounds, reached, strict=True)), sum_value=measured.sum)
        if state.last_ok is not None:
            succeeded.add_metric(label, state.last_ok.timestamp())
        opened.add_metric(label, state.open_until is not None)
        refused.add_metric(label, sum(state.report.refused_deletes.values()) if state.report is not None else 0)
        unwritten.add_metric(label, len(state.report.refused_writes) if state.report is not None else 0)
    return iter((runs, seconds, succeeded, opened, refused, unwritten))


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=_LABELS)
