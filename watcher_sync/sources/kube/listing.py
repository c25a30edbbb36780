# SPDX-License-Identifier: Apache-2.0
"""A list, page by page.

All pages are of one snapshot, whose resource version every page tells; it is opaque. What holds the snapshot
may be gone before the last page (410): then the list has to begin again, and nothing that was not seen so far
may be called gone. The objects stay JSON text. No state; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from watcher_sync.sources.kube.connection import Broken, Connection, Refused


class ListExpired(Exception):
    """The rest of the list is not to be had: begin again."""


class Page(msgspec.Struct):
    """A part of a list."""

    version: str
    """The resource version of the whole."""
    items: list[msgspec.Raw]
    remaining: int
    """At least so many objects follow; 0: this was the last page, or the server does not tell."""


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str | None = msgspec.field(default=None, name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_List).decode


def pages(
    connection: Connection,
    path: str,
    query: Mapping[str, str],
    *,
    accept: str,
    limit: int,
    read_timeout: Callable[[], float | None] = lambda: None,
) -> Iterator[Page]:
    """All pages of a list; it is complete when the iterator ends without an exception.

    :param query: selectors.
    :param limit: objects on a page; 0 asks for all at once.
    :param read_timeout: asked for each page: seconds without a byte; None: the connection's own.
    :raises ListExpired: in the middle.
    :raises Refused, Broken: as the connection does, or when an answer is no list.
    """
    asked = {**query, **({"limit": str(limit)} if limit else {})}
    token = ""
    while True:
        try:
            question = {**asked, "continue": token} if token else asked
            body = connection.read(path, question, accept=accept, read_timeout=read_timeout())
        except Refused as exc:
            if token and exc.gone:
                raise ListExpired from exc
            raise
        try:
            page = _decode(body)
        except msgspec.DecodeError as exc:
            raise Broken(f"the answer is no list: {exc}") from exc
        if not page.metadata.version:
            raise Broken("the answer is no list: it has no resourceVersion")
        token = page.metadata.token or ""
        yield Page(page.metadata.version, page.items or [], (page.metadata.remaining or 1) if token else 0)
        if not token:
            return
