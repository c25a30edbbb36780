# SPDX-License-Identifier: Apache-2.0
"""The documents of one page of an answer, which ends after a number of them, or after about 8 MiB.

A document is encoded as soon as it is made. Decoded, a document of small values takes twenty times as many bytes as its
text. So a request has one decoded document at a time, whatever form computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from watcher_sync.storage.database.pages import MAX_PAGE_BYTES

T = TypeVar("T")


class AnswerPage:
    """A page while it is made."""

    def __init__(self, limit: int) -> None:
        """:param limit: the maximum number of documents."""
        self._limit = limit
        self._bytes = 0
        self._marker: str | int | None = None
        self.documents: list[msgspec.Raw] = []
        self.next_marker: str | int | None = None
        """The marker of the page after this one; None: there is none."""

    def add(self, document: Any) -> None:
        """Adds the next document."""
        text = msgspec.json.encode(document)
        self._bytes += len(text)
        self.documents.append(msgspec.Raw(text))

    def add_from(
        self,
        rows: Iterable[T],
        marker_of: Callable[[T], str | int],
        document: Callable[[T], Any],
        *,
        more: bool = False,
    ) -> None:
        """Adds documents until the page is full.

        :param marker_of: returns the marker of the page after a row.
        :param document: makes what is shown of a row.
        :param more: whether rows follow after these ones.
        """
        left = iter(rows)
        while not self.is_full and (row := next(left, None)) is not None:
            self.add(document(row))
            self._marker = marker_of(row)
        self.next_marker = self._marker if more or next(left, None) is not None else None

    @property
    def is_full(self) -> bool:
        """Whether the page ends here."""
        return len(self.documents) >= self._limit or self._bytes >= MAX_PAGE_BYTES
