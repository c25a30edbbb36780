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

from tests.faults.storm.plan import LOSING, LOSING_DATABASE, LOSING_STREAM, Settings
from tests.faults.storm.processes import Processes
from tests.faults.storm.readers import FeedReader, JournalWatch
from tests.faults.storm.writers import Writers
from tests.functional.engine.driving import Installation, Line
from tests.functional.webhooks.driving import Record, check_order
from tests.waiting import Deadline
from watcher_sync.demo.cluster_truth import UNTOLD as UNTOLD_OF_CLUSTERS
from watcher_sync.demo.cluster_truth import observed_differences
from watcher_sync.storage.drifts import list_drifts
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm.providers import UNTOLD
from watcher_sync.testing.kubernetes.resources import BUILTIN
from watcher_sync.testing.kubernetes.store import Store

_IGNORED: Final = UNTOLD | UNTOLD_OF_CLUSTERS | {"last_heard"}
_REPORT: Final = re.compile(
    r"(?:WARNING|ERROR).*(?:events are lost|epoch|went back|another (?:journal|history)|discarded|restored)", re.I
)  # fmt: skip
_OF_STREAM: Final = ("provider ", "service_type_instance ")
"""How the differences of entities begin that DCM's messages tell of."""
_OF_API: Final = ("service_type_instance own-",)
"""Of those, what only the API wrote."""
_MOST_SHOWN: Final = 10
_MOST_CHARACTERS: Final = 300
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CATCH_UP_SECONDS: Final = 60.0
_LOST_SECONDS: Final = 30.0


class Verdict(msgspec.Struct):
    """What was found. The storm is passed when :attr:`failures` is empty."""

    differences: list[str] = []
    reports: dict[str, int] = {}
    """Way of reporting -> how often."""
    compared: dict[str, int] = {}
    """Kind -> entities of the truth."""
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


def settle(site: Installation, writers: Writers, line: Line, seconds: float, rest: float) -> tuple[list[str], float]:
    """Wait until the tables are the truth and the queues are empty, at most so long.

    :param rest: differences that have not changed for so many seconds while the queues are empty do not go away.
    :returns: the differences that remain, and the seconds.
    """
    began = same_since = time.monotonic()
    before: list[str] = []
    while True:
        found = differences(site, writers)
        is_empty = line.waiting() == 0 and writers.providers.settled()
        now = time.monotonic()
        if found != before or not is_empty:
            before, same_since = found, now
        if (is_empty and (not found or now - same_since > rest)) or now - began > seconds:
            return found or ([] if is_empty else ["a queue is not empty"]), now - began
        time.sleep(0.2)


def judge(
    verdict: Verdict, settings: Settings, site: Installation, writers: Writers, processes: Processes, line: Line,
    feed: FeedReader, watch: JournalWatch, record: Record, *, quiet: float,
) -> None:  # fmt: skip
    """Look at everything; the writers have stopped, and nothing breaks any more."""
    verdict.compared = {kind: len(entities) for kind, entities in writers.truth().items()}
    verdict.differences, verdict.quiet_seconds = settle(
        site, writers, line, quiet, rest=_LOST_SECONDS if settings.has_any(LOSING) else quiet
    )
    verdict.reports = _reports(site, processes, feed)
    silent = _not_drifting(site, _unreported(verdict, settings))
    if silent:
        shown = "\n".join(silent[:_MOST_SHOWN])
        verdict.failures.append(f"{len(silent)} differences without a report:\n{shown}")
        verdict.failures += _stories(shown, site, writers)
    rows = site.rows()
    verdict.changes = len(rows)
    _check_journal(verdict, site, rows, watch, settings, writers)
    check_feed(verdict, feed, rows)
    _check_quarantine(verdict, site)
    _check_webhooks(verdict, site, writers, record)


def _stories(text: str, site: Installation, writers: Writers) -> list[str]:
    """What the journal and the API server know of the entities that a text names: for the search of the cause."""
    lines: list[str] = []
    for entity_id in sorted(set(_UUID.findall(text)))[:_MOST_SHOWN]:
        for row in [row for row in site.rows() if row.entity_id == entity_id][-_MOST_SHOWN:]:
            lines.append(
                f"  journal {row.seq} {row.time:%H:%M:%S.%f} {row.change} {row.kind} {row.entity_id} "
                f"by {row.event_type} {row.event_id} of {row.source}, {row.merged} merged, {row.versions}: "
                f"{_clipped(row.delta)}"
            )
        lines += _history(writers.cluster.server.store, entity_id)
    return lines


def _history(store: Store, uid: str) -> list[str]:
    """The changes of an object that the API server still knows."""
    events = [event for each in BUILTIN for event in store.events_after(each, store.oldest) if event.last.uid == uid]
    names = {
        event.version: "deleted" if event.new is None else "modified" if event.old else "added" for event in events
    }
    return [f"  API server {version} {what} {uid}" for version, what in sorted(names.items())]


def _clipped(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."


def _reports(site: Installation, processes: Processes, feed: FeedReader) -> dict[str, int]:
    lines = [line for engine in site.engines for line in engine.log.splitlines() if _REPORT.search(line)]
    gaps = sum(slot.metric("watcher_sync_source_gaps_total") for slot in processes.engines)
    return {"log": len(lines), "gaps": int(gaps), "410": len(feed.gone)}


def _unreported(verdict: Verdict, settings: Settings) -> list[str]:
    """The differences that no report explains."""
    if not any(verdict.reports.values()):
        return verdict.differences
    if settings.has_any(LOSING_DATABASE):
        return []
    lost = _OF_STREAM if settings.has_any(LOSING_STREAM) else ()
    return [each for each in verdict.differences if not each.startswith(lost) or each.startswith(_OF_API)]


def _not_drifting(site: Installation, found: list[str]) -> list[str]:
    """The differences of entities that have no drift."""
    drifts = {f"{drift.kind} {drift.entity_id}" for drift in list_drifts(site.store.database)}
    return [each for each in found if " ".join(each.split()[:2]).rstrip(":") not in drifts]


def _check_journal(
    verdict: Verdict, site: Installation, rows: list[JournalRow], watch: JournalWatch, settings: Settings,
    writers: Writers,
) -> None:  # fmt: skip
    gaps = [(one.seq, other.seq) for one, other in itertools.pairwise(rows) if other.seq != one.seq + 1]
    if gaps:
        verdict.failures.append(f"the journal has gaps, such as {gaps[:3]}")
    if settings.has_any(LOSING_DATABASE):
        return
    if watch.heads:
        verdict.failures.append(f"the journal's head went back to {watch.heads[:3]}")
    try:
        site.check_journal()
    except AssertionError as exc:
        verdict.failures.append(f"journal: {exc}")
        verdict.failures += _stories(str(exc), site, writers)


def check_feed(verdict: Verdict, feed: FeedReader, rows: list[JournalRow]) -> None:
    """Each row of the journal that has a change came once, in order. After a 410 only the order is known."""
    limit = Deadline(_CATCH_UP_SECONDS)
    head = rows[-1].seq if rows else 0
    while feed.since < head and not limit.is_over:
        time.sleep(0.05)
    verdict.feed_rows = len(feed.rows)
    got = [seq for seq, *_ in feed.rows if seq <= head]  # changes may follow after the journal was read
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
    told = [function.id for function in writers.cluster.functions if function.aspects]
    limit = Deadline(_CATCH_UP_SECONDS)
    while True:
        with site.store.database.connect() as connection:
            behind = connection.execute(left).scalar_one()
        # An outlet that has just started does not know yet what is left.
        is_done = not behind and all(record.arrivals.get(name) for name in told)
        if is_done or limit.is_over:
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
