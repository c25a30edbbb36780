# SPDX-License-Identifier: Apache-2.0
"""The catch-up: fetches by REST the events that the stream did not bring.

It requests ``GET /events{selfLink}`` with ``query=sequenceID>N`` and ``sort=sequenceID,ASC``. It always asks for page 1
after the last sequence, so that a purge between two pages shifts nothing. A page with fewer entries than its size is
the last.

While the caller handles a page, a thread requests the next one. The first page has 100 entries, which every service of
the dialect allows. A service may announce a larger size in a header, which watcher_sync does. The pages after it have
this size. If a large page fails, pages of 100 entries follow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol, runtime_checkable

import urllib3

from watcher_sync.client.watch.connection import Route
from watcher_sync.client.watch.documents import messages_of_page
from watcher_sync.client.watch.errors import (
    EventsPurged,
    HarvestFailed,
    HarvestRefused,
    PermissionDenied,
    TopicNotFound,
)
from watcher_sync.extensions.watch.wire import events_pb2

PAGE_SIZE = 100
LARGE_PAGE_SIZE = 1_000
"""The most entries that a page has on a service that announces its maximum."""
MAX_SECONDS = 300.0
"""How long a catch-up may take; the watch then begins another one after the last event that it got."""

_TIMEOUT = urllib3.Timeout(connect=10.0, read=30.0)
_MAX_PAGE_BYTES = 64 * 1024 * 1024
_MAX_SEQUENCE_HEADER = "X-Axway-Max-Sequence-Id"
_EPOCH_HEADER = "X-Watcher-Sync-Epoch"
_MAX_PAGE_SIZE_HEADER = "X-Watcher-Sync-Max-Page-Size"


class Harvester(Protocol):
    """Fetches events of a topic. Threads of several watches call it."""

    def harvest(self, topic: str, after: int, token: str) -> Iterator[events_pb2.Event]:
        """The events after a sequence, in ascending order, up to the newest at the time of the last request.

        :param topic: the self link of the topic.
        :param token: the bearer token.
        :raises EventsPurged: when the service no longer has them all.
        :raises HarvestFailed: when a retry may succeed.
        :raises WatchError: any other of them ends the watch; :class:`HarvestRefused` with 401 gets one retry.
        """
        ...


@runtime_checkable
class HarvestsEpochs(Protocol):
    """A harvester that has the service compare the epoch of the watermark, too; see :class:`StoresEpochs`."""

    def harvest_of_epoch(self, topic: str, after: int, token: str, epoch: str) -> Iterator[events_pb2.Event]:
        """As :meth:`Harvester.harvest`.

        :param epoch: of the sequence.
        :raises EventsPurged: also when the service has another epoch.
        """
        ...


class _PageTooLarge(HarvestFailed):
    """A page has more bytes than a client reads."""


class _EventPage(NamedTuple):
    """One page of events."""

    messages: list[events_pb2.Event]
    size: int
    """The number of entries that were requested."""
    max_size: int
    """The most entries that the next page may have."""

    @property
    def is_full(self) -> bool:
        """Whether another page may follow."""
        return len(self.messages) >= self.size

    def newer(self, after: int) -> list[events_pb2.Event]:
        """The events after a sequence, in order, each once."""
        found: list[events_pb2.Event] = []
        for message in sorted(self.messages, key=lambda each: each.metadata.sequenceID):
            if message.metadata.sequenceID > after:
                after = message.metadata.sequenceID
                found.append(message)
        return found


class RestHarvester:
    """Fetches events from the REST API of a service of the dialect."""

    def __init__(
        self,
        url: str,
        tenant_id: str,
        *,
        route: Route | None = None,
        user_agent: str | None = None,
        page_size: int | None = None,
        max_seconds: float = MAX_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param url: the root of the API, such as ``https://watch.example.com``.

        :param user_agent: the name and version of the program; None: those of the HTTP library.
        :param page_size: entries of a page; None: 100, and then up to 1,000 if the service announces that it allows it.
        :param max_seconds: how long a catch-up may take.
        :raises InvalidSettings: when the URL or a file of the TLS settings cannot be used.
        """
        self._pool, self._root = (route or Route()).pool(url)
        self._tenant_id = tenant_id
        self._user_agent = {} if user_agent is None else {"User-Agent": user_agent}
        self._page_size = page_size
        self._max_seconds = max_seconds
        self._monotonic = monotonic

    def harvest(self, topic: str, after: int, token: str) -> Iterator[events_pb2.Event]:
        """The events after a sequence; see :class:`Harvester`."""
        return self.harvest_of_epoch(topic, after, token, "")

    def harvest_of_epoch(self, topic: str, after: int, token: str, epoch: str) -> Iterator[events_pb2.Event]:
        """The events after a sequence; see :class:`HarvestsEpochs`.

        :param epoch: of the sequence; empty: not known, and not sent.
        """
        deadline = self._monotonic() + self._max_seconds
        size, largest = self._page_size or PAGE_SIZE, self._page_size or LARGE_PAGE_SIZE
        requested = self._request(topic, after, size, token, epoch)
        while True:
            try:
                page = requested.result()
            except _PageTooLarge:
                if size == 1:
                    raise
                size = largest = size // 2  # the events are large, and a smaller page brings some of them
                requested = self._request(topic, after, size, token, epoch)
                continue
            except HarvestFailed:
                if self._page_size is not None or size <= PAGE_SIZE:
                    raise
                page, largest = self._page(topic, after, PAGE_SIZE, token, epoch), PAGE_SIZE
            size = min(page.max_size, largest)
            newer = page.newer(after)
            if page.is_full:
                if not newer:
                    raise HarvestFailed(f"{topic}: the catch-up sent a full page without an event after {after}")
                after = newer[-1].metadata.sequenceID
                requested = self._request(topic, after, size, token, epoch)
            yield from newer
            if not page.is_full:
                return
            if self._monotonic() > deadline:
                raise HarvestFailed(f"{topic}: the catch-up took more than {self._max_seconds:g} seconds")

    def _request(self, topic: str, after: int, size: int, token: str, epoch: str) -> Future[_EventPage]:
        """Requests a page in a daemon thread, which does not delay the end of the process."""
        future: Future[_EventPage] = Future()

        def run() -> None:
            try:
                future.set_result(self._page(topic, after, size, token, epoch))
            except BaseException as exc:  # noqa: BLE001 - the future raises it
                future.set_exception(exc)

        threading.Thread(target=run, name="watch-catch-up", daemon=True).start()
        return future

    def _page(self, topic: str, after: int, size: int, token: str, epoch: str) -> _EventPage:
        response, body = self._get(topic, after, size, token, epoch)
        if response.status != 200:
            raise _refusal(response.status, response.headers, topic, after)
        if len(body) > _MAX_PAGE_BYTES:
            raise _PageTooLarge(f"{topic}: a page of the catch-up has more than {_MAX_PAGE_BYTES} bytes")
        try:
            messages = messages_of_page(body)
        except ValueError as exc:
            raise HarvestFailed(f"{topic}: the answer to the catch-up is no page of events: {exc}") from None
        return _EventPage(messages, size, self._page_size or _larger(size, response.headers.get(_MAX_PAGE_SIZE_HEADER)))

    def _get(self, topic: str, after: int, size: int, token: str, epoch: str) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """:raises HarvestFailed: there was no answer."""
        fields = {
            "page": "1",
            "pageSize": str(size),
            "query": f"sequenceID>{after}",
            "sort": "sequenceID,ASC",
        }
        if epoch:
            fields["epoch"] = epoch
        headers = {
            **self._pool.headers,
            **self._user_agent,
            "Accept": "application/json",
            "Authorization": f"Bearer {token}",
            "X-Auth-Token": token,  # where OpenStack's services expect it
            "X-Axway-Tenant-Id": self._tenant_id,
        }
        try:
            response = self._pool.request(
                "GET",
                f"{self._root}/events{topic}",
                fields=fields,
                headers=headers,
                timeout=_TIMEOUT,
                retries=False,
                preload_content=False,
            )
            try:
                body = response.read(_MAX_PAGE_BYTES + 1)
                if len(body) > _MAX_PAGE_BYTES:
                    response.close()  # the rest would be read as the next answer
            finally:
                response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise HarvestFailed(f"{topic}: the catch-up got no answer: {type(exc).__name__}") from exc
        return response, body


def _larger(size: int, announced: str | None) -> int:
    """The size of the next page."""
    is_number = announced is not None and announced.isascii() and announced.isdigit()
    return max(size, min(int(announced or 0), LARGE_PAGE_SIZE)) if is_number else size


def _refusal(
    status: int, headers: Mapping[str, str], topic: str, after: int
) -> EventsPurged | HarvestFailed | HarvestRefused | PermissionDenied | TopicNotFound:
    if status == 410:
        max_sequence = headers.get(_MAX_SEQUENCE_HEADER)
        is_number = max_sequence is not None and max_sequence.isascii() and max_sequence.isdigit()
        newest = int(max_sequence or 0) if is_number else None
        return EventsPurged(topic, after, max_sequence=newest, epoch=headers.get(_EPOCH_HEADER))
    if status == 403:
        return PermissionDenied(f"{topic}: the catch-up was refused with 403")
    if status == 404:
        return TopicNotFound(f"{topic}: the catch-up got 404: no such topic, or no such API at this URL")
    if status in (408, 429) or status >= 500:
        return HarvestFailed(f"{topic}: the catch-up failed with {status}")
    return HarvestRefused(f"{topic}: the catch-up was refused with {status}", status)
