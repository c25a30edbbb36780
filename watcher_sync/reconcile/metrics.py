# SPDX-License-Identifier: Apache-2.0
"""The metrics of reconciliation. The label ``scope`` is a name from the configuration, such as a cluster's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from watcher_sync.reconcile.scope import RunOutcome, ScopeState

PREFIX = "watcher_sync_reconcile_"

_LABELS = ("reconciler", "scope")


def collect(states: Iterable[ScopeState]) -> Iterator[Metric]:
    """All scopes' figures."""
    runs = CounterMetricFamily(
        f"{PREFIX}runs", "Reconciliations that were due, by what became of them.", labels=[*_LABELS, "outcome"]
    )
    seconds = HistogramMetricFamily(
        f"{PREFIX}seconds", "Seconds of a reconciliation that ended in time.", labels=_LABELS
    )
    succeeded = _gauge("last_success_timestamp_seconds", "When everything of the scope was compared last.")
    opened = _gauge("breaker_open", "1 while the scope is left alone because it failed again and again.")
    braked = _gauge("braked_deletions", "Deletions that the brake held back in the last reconciliation.")
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
        braked.add_metric(label, sum(state.report.braked.values()) if state.report is not None else 0)
    return iter((runs, seconds, succeeded, opened, braked))


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=_LABELS)
