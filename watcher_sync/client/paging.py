# SPDX-License-Identifier: Apache-2.0
"""Reads documents and the pages of lists, for all parts of the client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from watcher_sync.client.errors import BadRequest, UnexpectedResponse
from watcher_sync.client.transport import Transport

PAGE_SIZE = 1000
"""Entries that the client requests at once. If the server refuses the number, the client uses the server's default."""

D = TypeVar("D")


class Reading:
    """The base of the client's parts. Used by one thread at a time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._page_size: int | None = PAGE_SIZE
        """Entries to request at once; None: the server's default, because the server refused ``PAGE_SIZE``."""

    def _get(self, path: str, into: type[D], query: Mapping[str, Any] | None = None, *, wait: float = 0.0) -> D:
        return self._transport.request("GET", path, query=query, wait=wait).read(into)

    def _list(
        self, path: str, name: str, into: type[D], query: Mapping[str, Any], limit: int | None, marker: str | None
    ) -> Iterator[D]:
        def page(size: int | None, marker: str | None) -> tuple[list[D], str | None]:
            document = self._get(path, dict[str, Any], {**query, "limit": size, "marker": marker})
            return converted(document.get(name), list[into]), document.get("next_marker")  # type: ignore[valid-type]

        entries = itertools.chain.from_iterable(self._pages(page, limit, marker))
        return itertools.islice(entries, limit)

    def _pages(
        self, fetch: Callable[[int | None, str | None], tuple[D, str | None]], limit: int | None, marker: str | None
    ) -> Iterator[D]:
        """Requests one page after the other.

        :param fetch: (size, marker) -> a page, and the marker of the next one; None: no next page.
        """
        while True:
            at = marker
            page, marker = self._sized(lambda size, at=at: fetch(size, at), limit)  # type: ignore[misc]
            yield page
            if marker is None:
                return

    def _sized(self, fetch: Callable[[int | None], D], limit: int | None = None) -> D:
        """Requests a page of at most ``limit`` entries; without a size, if the server refuses it."""
        if self._page_size is not None:
            try:
                return fetch(self._page_size if limit is None else min(self._page_size, limit))
            except BadRequest as exc:
                if not any(error.pointer == "/limit" for error in exc.errors):
                    raise
                self._page_size = None
        return fetch(None)


def converted(value: Any, into: type[D]) -> D:
    """A decoded value in the type of the client's documents.

    :raises UnexpectedResponse: when it is not of this type.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as exc:
        raise UnexpectedResponse(f"this client does not understand the answer of the API: {exc}") from None
