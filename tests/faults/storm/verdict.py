# SPDX-License-Identifier: Apache-2.0
"""What must be true after a storm.

The tables are the truth, per kind and field. Where a fault destroyed data, a report must exist instead: a log line, the
gap counter, a drift, or an answer 410 of the feed. The journal is gapless, the feed is complete, and the quarantine is
empty. Each webhook continues where the one before ended.
"""

from __future__ import annotations

import collections
import itertools
import json
import re
import time
from typing import Final

import msgspec
import sqlalchemy as sa

from tests.faults.storm.plan import Settings
from tests.faults.storm.processes import Processes
from tests.faults.storm.readers import FeedReader, JournalWatch
from tests.faults.storm.writers import Writers
from tests.functional.engine.driving import Installation, Line
from tests.functional.outlets.driving import Record, check_order
from watcher_sync.demo.cluster_truth import UNTOLD as UNTOLD_OF_CLUSTERS
from watcher_sync.demo.cluster_truth import observed_differences
from watcher_sync.storage.drifts import list_drifts
from watcher_sync.storage.journal import JournalRow
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm.providers import UNTOLD

_IGNORED: Final = UNTOLD | UNTOLD_OF_CLUSTERS | {"last_heard"}
_REPORT: Final = re.compile(
    r"(?:WARNING|ERROR).*(?:events are lost|epoch|went back|another (?:journal|history)|discarded|restored)", re.I
)  # fmt: skip
_MOST_SHOWN: Final = 10
_CATCH_UP_SECONDS: Final = 20.0


class Verdict(msgspec.Struct):
    """What was found. The storm is passed when :attr:`failures` is empty."""

    differences: list[str] = []
    reports: dict[str, int] = {}
    """Way of reporting -> how often."""
    failures: list[str] = []
    changes: int = 0
    feed_rows: int = 0
    webhooks: int = 0
    quiet_seconds: float = 0.0


def differences(site: Installation, writers: Writers) -> list[str]:
    """Where the tables are not the truth; only after the writers have stopped."""
    snapshot = site.store.load().snapshot()
    found = [str(each) for each in compare(writers.truth(), snapshot, ignored=_IGNORED)]
    cluster = writers.cluster
    return found + [str(each) for each in observed_differences(cluster.server, cluster.functions, snapshot)]


def settle(site: Installation, writers: Writers, line: Line, seconds: float) -> tuple[list[str], float]:
    """Wait until the tables are the truth and the queues are empty, at most so long.

    :returns: the differences that remain, and the seconds.
    """
    began = time.monotonic()
    while True:
        found = differences(site, writers)
        is_empty = line.waiting() == 0 and writers.providers.settled()
        took = time.monotonic() - began
        if (not found and is_empty) or took > seconds:
            return found or ([] if is_empty else ["a queue is not empty"]), took
        time.sleep(0.2)


def judge(
    settings: Settings, site: Installation, writers: Writers, processes: Processes, line: Line, feed: FeedReader,
    watch: JournalWatch, record: Record, *, quiet: float,
) -> Verdict:  # fmt: skip
    """Look at everything; the writers have stopped, and nothing breaks any more."""
    verdict = Verdict()
    verdict.differences, verdict.quiet_seconds = settle(site, writers, line, quiet)
    verdict.reports = _reports(site, processes, feed)
    silent = [] if settings.is_losing and any(verdict.reports.values()) else _not_drifting(site, verdict.differences)
    if silent:
        shown = "\n".join(silent[:_MOST_SHOWN])
        verdict.failures.append(f"{len(silent)} differences without a report:\n{shown}")
    rows = site.rows()
    verdict.changes = len(rows)
    _check_journal(verdict, site, rows, watch, settings)
    check_feed(verdict, feed, rows)
    _check_quarantine(verdict, site)
    _check_webhooks(verdict, site, writers, record)
    return verdict


def _reports(site: Installation, processes: Processes, feed: FeedReader) -> dict[str, int]:
    lines = [line for engine in site.engines for line in engine.log.splitlines() if _REPORT.search(line)]
    gaps = sum(slot.metric("watcher_sync_source_gaps_total") for slot in processes.engines)
    return {"log": len(lines), "gaps": int(gaps), "410": len(feed.gone)}


def _not_drifting(site: Installation, found: list[str]) -> list[str]:
    """The differences of entities that have no drift."""
    drifts = {f"{drift.kind} {drift.entity_id}" for drift in list_drifts(site.store.database)}
    return [each for each in found if " ".join(each.split()[:2]).rstrip(":") not in drifts]


def _check_journal(
    verdict: Verdict, site: Installation, rows: list[JournalRow], watch: JournalWatch, settings: Settings
) -> None:
    gaps = [(one.seq, other.seq) for one, other in itertools.pairwise(rows) if other.seq != one.seq + 1]
    if gaps:
        verdict.failures.append(f"the journal has gaps, such as {gaps[:3]}")
    if settings.is_losing:
        return
    if watch.heads:
        verdict.failures.append(f"the journal's head went back to {watch.heads[:3]}")
    try:
        site.check_journal()
    except AssertionError as exc:
        verdict.failures.append(f"journal: {exc}")


def check_feed(verdict: Verdict, feed: FeedReader, rows: list[JournalRow]) -> None:
    """Each row of the journal that has a change came once, in order. After a 410 only the order is known."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    head = rows[-1].seq if rows else 0
    while feed.since < head and time.monotonic() < deadline:
        time.sleep(0.05)
    verdict.feed_rows = len(feed.rows)
    got = [seq for seq, *_ in feed.rows]
    if feed.gone:
        return
    wanted = [row.seq for row in rows if row.delta or row.change != "updated"]
    if got == wanted:
        return
    missing, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
    twice = [seq for seq, count in collections.Counter(got).items() if count > 1]
    verdict.failures.append(
        f"the feed differs from the journal at {len(missing)} missing {missing[:5]}, {len(extra)} extra {extra[:5]}, "
        f"{len(twice)} repeated {twice[:5]} rows; in order: {got == sorted(got)}"
    )


def _check_quarantine(verdict: Verdict, site: Installation) -> None:
    stored = [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]
    if stored:
        reasons = collections.Counter(row["reason"] for row in stored)
        verdict.failures.append(f"{len(stored)} events are in quarantine: {reasons.most_common(3)}")


def _check_webhooks(verdict: Verdict, site: Installation, writers: Writers, record: Record) -> None:
    """Nothing is missing between two deliveries, and after the last one nothing is left to deliver."""
    t = site.store.tables.subscription_progress
    left = sa.select(sa.func.count()).where(t.c.held_since.is_not(None) | t.c.behind_since.is_not(None))
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while True:
        with site.store.database.connect() as connection:
            behind = connection.execute(left).scalar_one()
        if not behind or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if behind:
        verdict.failures.append(f"{behind} subscriptions are behind {_CATCH_UP_SECONDS:.0f} s after the storm")
    verdict.webhooks = record.total
    for function in writers.cluster.functions:
        try:
            last = check_order(record, function.id)
            assert last is not None or not function.aspects, f"nothing came for {function.id}"
        except AssertionError as exc:
            verdict.failures.append(f"webhooks: {exc}")
