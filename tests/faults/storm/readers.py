# SPDX-License-Identifier: Apache-2.0
"""Follows the journal in the database and ``/v1/events`` during a storm."""

from __future__ import annotations

import bisect
import collections
import threading
import time
from typing import Any, Final

import httpx
import sqlalchemy as sa

from tests.functional.engine.driving import Installation
from tests.waiting import deadline

_POLL_SECONDS: Final = 0.1


class JournalWatch:
    """When changes of each source were committed, as the database shows it, without a proxy."""

    def __init__(self, site: Installation) -> None:
        self.seen: dict[str, list[float]] = collections.defaultdict(list)
        """Source -> monotonic times at which new rows of it were there."""
        self.heads: list[int] = []
        """Each head that was lower than the one before."""
        self._site = site
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(deadline(30))

    def first_after(self, moment: float, sources: tuple[str, ...]) -> float | None:
        """Seconds from the moment to the first commit of these sources; None: there is none."""
        found: list[float] = []
        for source in sources:
            times = self.seen.get(source, [])
            found += times[bisect.bisect_right(times, moment) :][:1]
        return min(found) - moment if found else None

    def wait_for_commits(self, sources: tuple[str, ...], seconds: float) -> dict[str, float | None]:
        """Wait until each source has committed, at most so long; source -> seconds until it did, None: it did not."""
        began = time.monotonic()
        while True:
            found = {source: self.first_after(began, (source,)) for source in sources}
            if None not in found.values() or time.monotonic() - began > seconds:
                return found
            time.sleep(_POLL_SECONDS)

    def _run(self) -> None:
        t = self._site.store.tables.journal
        query = sa.select(t.c.source, sa.func.max(t.c.seq)).where(t.c.seq > sa.bindparam("last")).group_by(t.c.source)
        highest = sa.select(sa.func.max(t.c.seq))
        last = 0
        while not self._stop.wait(_POLL_SECONDS):
            try:
                with self._site.store.database.connect() as connection:
                    rows = connection.execute(query, {"last": last}).all()
                    head = connection.execute(highest).scalar() or 0
            except Exception:  # noqa: BLE001 - the database is away
                self._site.store.database.dispose()
                continue
            now = time.monotonic()
            if head < last:
                self.heads.append(head)
                last = head
            for source, seq in rows:
                self.seen[source].append(now)
                last = max(last, seq)


class FeedReader:
    """A client of ``/v1/events`` that continues at ``next_since`` whatever happens to the API.

    :param url: the API's.
    """

    def __init__(self, url: str) -> None:
        self.rows: list[tuple[int, str, str, str]] = []
        """(seq, kind, id, change) in the order of their arrival."""
        self.gone: list[str] = []
        """What each 410 said."""
        self.since = 0
        self.failures = 0
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(deadline(30))

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=deadline(15)) as client:
            while not self._stop.is_set():
                try:
                    answer = client.get("/v1/events", params={"since": self.since, "limit": 500, "wait": 1})
                except httpx.TransportError:
                    self._fail()
                    continue
                if answer.status_code == 410:
                    self.gone.append(answer.json().get("detail", ""))
                    self._start_from_the_lists(client)
                elif answer.status_code != 200:
                    self._fail()
                else:
                    self._take(answer.json())

    def _take(self, page: dict[str, Any]) -> None:
        self.rows += [(row["seq"], row["kind"], row["id"], row["change"]) for row in page["events"]]
        self.since = page["next_since"]

    def _start_from_the_lists(self, client: httpx.Client) -> None:
        try:
            answer = client.get("/v1/events", params={"limit": 1})
        except httpx.TransportError:
            self._fail()
            return
        if answer.status_code == 200:
            self.since = answer.json()["next_since"]

    def _fail(self) -> None:
        self.failures += 1
        self._stop.wait(_POLL_SECONDS)
