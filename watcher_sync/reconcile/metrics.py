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
    """Yield the metrics of all scopes."""
    runs = CounterMetricFamily(
        f"{PREFIX}runs", "Reconciliations that were due, by outcome.", labels=[*_LABELS, "outcome"]
    )
    seconds = HistogramMetricFamily(
        f"{PREFIX}seconds", "Seconds of a reconciliation that ended in time.", labels=_LABELS
    )
    succeeded = _gauge("last_success_timestamp_seconds", "When a reconciliation last compared the whole scope.")
    opened = _gauge("breaker_open", "1 while the breaker pauses the scope after repeated failures.")
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
