# SPDX-License-Identifier: Apache-2.0
"""An endless iterator of changes: it reads the journal by long polls, and retries while the API is unavailable.

Guarantees: every change once, in order, without a gap. The position is the ``next_since`` of the last complete page.
After a lost answer the iterator requests the same page again. It asks for the journal's end ("now") only once, before
all other requests.

It retries after a connection error, a timeout, and the statuses 502, 503 and 504. The pause grows from 0.5 to 10
seconds, with jitter. It is longer if the API sends ``Retry-After``. Every other error ends the iteration, such as 410:
the journal does not reach back to the position.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator

from watcher_sync.backoff import Backoff
from watcher_sync.client.errors import Unavailable, Unreachable
from watcher_sync.client.models import Change, EventPage

DEFAULT_WAIT_SECONDS = 20.0
"""How long one request waits for a change, unless the caller chooses another time."""

_MIN_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 10.0
_MAX_RETRY_AFTER_SECONDS = 60.0


class ChangeStream(Iterator[Change]):
    """An endless iterator of changes. Used by one thread.

    :ivar position: the seq of the last change that the iterator returned, or a later one without further changes.
        Another stream continues with it as ``since``. None before the first request.
    :ivar epoch: the epoch of the position; empty: not known yet. The API refuses a position of another epoch.
    """

    def __init__(
        self,
        page: Callable[[int | None, float, str], EventPage],
        since: int | None,
        *,
        patience: float | None = None,
        wait: float = DEFAULT_WAIT_SECONDS,
        epoch: str = "",
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """:param page: (since, seconds to wait, epoch of since) -> a page of the journal.

        :param patience: seconds for which the stream retries after an error; None: without limit.
        :param wait: seconds that one request waits for a change.
        """
        self.position = since
        self.epoch = epoch
        self._page = page
        self._patience = patience
        self._wait = wait
        self._monotonic = monotonic
        self._sleep = sleep
        self._fetched = since
        """The position after the last page. The changes that the iterator has not returned yet are in ``_ready``."""
        self._ready: collections.deque[Change] = collections.deque()

    def __iter__(self) -> ChangeStream:
        return self

    def __next__(self) -> Change:
        while not self._ready:
            self._fetch()
        change = self._ready.popleft()
        self.position = change.seq if self._ready else self._fetched
        return change

    def _fetch(self) -> None:
        if self._fetched is None:
            self._fetched = self.position = self._page_with_retries(None, 0.0).next_since
        page = self._page_with_retries(self._fetched, self._wait)
        self._ready.extend(page.events)
        self._fetched = page.next_since
        if not self._ready:
            self.position = self._fetched

    def _page_with_retries(self, since: int | None, wait: float) -> EventPage:
        """Requests a page until it succeeds, or until the patience ends."""
        backoff = Backoff(_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        deadline = None if self._patience is None else self._monotonic() + wait + self._patience
        while True:
            try:
                page = self._page(since, wait, self.epoch)
                self.epoch = page.epoch
                return page
            except (Unreachable, Unavailable) as exc:
                now = self._monotonic()
                if deadline is not None and now >= deadline:
                    raise
                asked = exc.retry_after if isinstance(exc, Unavailable) else None
                delay = max(backoff.failed(), min(asked or 0.0, _MAX_RETRY_AFTER_SECONDS))
                self._sleep(delay if deadline is None else min(delay, max(deadline - now, 0.0)))
