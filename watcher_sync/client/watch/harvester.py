# SPDX-License-Identifier: Apache-2.0
"""The catch-up: fetches by REST the events that the stream did not bring.

It requests ``GET /events{selfLink}`` with ``query=sequenceID>N`` and ``sort=sequenceID,ASC``. It always asks for page 1
after the last sequence, so that a purge between two pages shifts nothing. A page with fewer entries than its size is
the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

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
from watcher_sync.wire.watch import events_pb2

PAGE_SIZE = 100
MAX_SECONDS = 300.0
"""How long a catch-up may take; the watch then begins another one after the last event that it got."""

_TIMEOUT = urllib3.Timeout(connect=10.0, read=30.0)
_MAX_PAGE_BYTES = 64 * 1024 * 1024
_MAX_SEQUENCE_HEADER = "X-Axway-Max-Sequence-Id"


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


class RestHarvester:
    """Fetches events from the REST API of a service of the dialect."""

    def __init__(
        self,
        url: str,
        tenant_id: str,
        *,
        route: Route | None = None,
        page_size: int = PAGE_SIZE,
        max_seconds: float = MAX_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param url: the root of the API, such as ``https://watch.example.com``.

        :param page_size: entries of a page.
        :param max_seconds: how long a catch-up may take.
        :raises InvalidSettings: when the URL or a file of the TLS settings cannot be used.
        """
        self._pool, self._root = (route or Route()).pool(url)
        self._tenant_id = tenant_id
        self._page_size = page_size
        self._max_seconds = max_seconds
        self._monotonic = monotonic

    def harvest(self, topic: str, after: int, token: str) -> Iterator[events_pb2.Event]:
        """The events after a sequence; see :class:`Harvester`."""
        deadline = self._monotonic() + self._max_seconds
        while True:
            page = self._page(topic, after, token)
            page_is_newer = False
            for message in sorted(page, key=lambda each: each.metadata.sequenceID):
                if message.metadata.sequenceID > after:
                    after = message.metadata.sequenceID
                    yield message
                    page_is_newer = True
            if len(page) < self._page_size:
                return
            if not page_is_newer:
                raise HarvestFailed(f"{topic}: the catch-up sent a full page without an event after {after}")
            if self._monotonic() > deadline:
                raise HarvestFailed(f"{topic}: the catch-up took more than {self._max_seconds:g} seconds")

    def _page(self, topic: str, after: int, token: str) -> list[events_pb2.Event]:
        fields = {
            "page": "1",
            "pageSize": str(self._page_size),
            "query": f"sequenceID>{after}",
            "sort": "sequenceID,ASC",
        }
        headers = {
            **self._pool.headers,
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
            finally:
                response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise HarvestFailed(f"{topic}: the catch-up got no answer: {type(exc).__name__}") from exc
        if response.status != 200:
            raise _refusal(response.status, response.headers.get(_MAX_SEQUENCE_HEADER), topic, after)
        if len(body) > _MAX_PAGE_BYTES:
            raise HarvestFailed(f"{topic}: a page of the catch-up has more than {_MAX_PAGE_BYTES} bytes")
        try:
            return messages_of_page(body)
        except ValueError as exc:
            raise HarvestFailed(f"{topic}: the answer to the catch-up is no page of events: {exc}") from None


def _refusal(
    status: int, max_sequence: str | None, topic: str, after: int
) -> EventsPurged | HarvestFailed | HarvestRefused | PermissionDenied | TopicNotFound:
    if status == 410:
        is_number = max_sequence is not None and max_sequence.isascii() and max_sequence.isdigit()
        return EventsPurged(topic, after, max_sequence=int(max_sequence or 0) if is_number else None)
    if status == 403:
        return PermissionDenied(f"{topic}: the catch-up was refused with 403")
    if status == 404:
        return TopicNotFound(f"{topic}: the catch-up got 404: no such topic, or no such API at this URL")
    if status in (408, 429) or status >= 500:
        return HarvestFailed(f"{topic}: the catch-up failed with {status}")
    return HarvestRefused(f"{topic}: the catch-up was refused with {status}", status)
