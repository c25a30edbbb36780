# SPDX-License-Identifier: Apache-2.0
"""The documents of one page of an answer, which ends after a number of them, or after about 8 MiB.

A document is encoded as soon as it is made. Decoded, a document of small values takes twenty times as many bytes as its
text. So a request has one decoded document at a time, whatever form computes it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from watcher_sync.storage.database.pages import MAX_PAGE_BYTES


class AnswerPage:
    """A page while it is made."""

    def __init__(self, limit: int) -> None:
        """:param limit: the maximum number of documents."""
        self._limit = limit
        self._bytes = 0
        self.documents: list[msgspec.Raw] = []

    def add(self, document: Any) -> None:
        """Adds the next document."""
        text = msgspec.json.encode(document)
        self._bytes += len(text)
        self.documents.append(msgspec.Raw(text))

    @property
    def is_full(self) -> bool:
        """Whether the page ends here."""
        return len(self.documents) >= self._limit or self._bytes >= MAX_PAGE_BYTES
