# SPDX-License-Identifier: Apache-2.0
"""The changes as they come: a long poll that goes on where it was, whatever happens to the API in between.

The position is the ``next_since`` of the last page that arrived whole, so an answer that was lost is asked for again
and nothing is given twice. The first thing is to pin the position: "now" is asked for once, and not again after
a connection that broke.

What it waits out: no connection, a time that ran out, 502, 503 and 504. The pauses grow from half a second to
ten, are jittered, and heed Retry-After. What it does not: every other refusal, such as 410, which says that
the position is lost.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable, Iterator

from watcher_sync.client.errors import Unavailable, Unreachable
from watcher_sync.client.models import Change, EventPage

LONGEST_WAIT = 20.0
"""Seconds that one request waits for news unless told otherwise."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


class Following(Iterator[Change]):
    """An endless iterator of changes. One thread.

    :ivar position: the ``since`` with which another one would go on: everything up to it was given. None until
        "now" was asked for.
    """

    def __init__(
        self,
        page: Callable[[int | None, float], EventPage],
        since: int | None,
        *,
        patience: float | None = None,
        wait: float = LONGEST_WAIT,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """:param page: (since, seconds to wait) -> a page.

        :param patience: seconds for which failures are waited out; None: for ever.
        """
        self.position = since
        self._page = page
        self._patience = patience
        self._wait = wait
        self._monotonic = monotonic
        self._sleep = sleep
        self._fetched = since
        """Up to where pages were fetched; what of them was not given yet is in ``_ready``."""
        self._ready: collections.deque[Change] = collections.deque()

    def __iter__(self) -> Following:
        return self

    def __next__(self) -> Change:
        while not self._ready:
            self._fetch()
        change = self._ready.popleft()
        self.position = change.seq if self._ready else self._fetched
        return change

    def _fetch(self) -> None:
        if self._fetched is None:
            self._fetched = self.position = self._patiently(None, 0.0).next_since
        page = self._patiently(self._fetched, self._wait)
        self._ready.extend(page.events)
        self._fetched = page.next_since
        if not self._ready:
            self.position = self._fetched

    def _patiently(self, since: int | None, wait: float) -> EventPage:
        """A page, asked for until it comes."""
        pause = _FIRST_PAUSE
        deadline = None if self._patience is None else self._monotonic() + wait + self._patience
        while True:
            try:
                return self._page(since, wait)
            except (Unreachable, Unavailable) as exc:
                now = self._monotonic()
                if deadline is not None and now >= deadline:
                    raise
                told = exc.retry_after if isinstance(exc, Unavailable) else None
                delay = max(pause * random.uniform(0.5, 1.0), min(told or 0.0, 60.0))
                self._sleep(delay if deadline is None else min(delay, max(deadline - now, 0.0)))
                pause = min(pause * 2, _LONGEST_PAUSE)
