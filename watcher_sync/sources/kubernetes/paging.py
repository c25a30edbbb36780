# SPDX-License-Identifier: Apache-2.0
"""A list, page by page.

All pages are of one snapshot, whose resource version every page tells; it is opaque. What holds the snapshot
may be gone before the last page (410): then the list has to begin again, and nothing that was not seen so far
may be called gone. The objects stay JSON text, unless somebody says what to decode them to: that takes a page
in one go, in half the time that it takes to cut it into texts first and to decode these. A page with an object that
is no such thing stays text, so that it spoils nothing but itself. No state; any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from watcher_sync.sources.kubernetes.connection import Broken, Connection, Refused
from watcher_sync.wire.kubernetes import Object


class ListExpired(Exception):
    """The rest of the list is not to be had: begin again."""


class Page:
    """A part of a list."""

    __slots__ = ("_body", "_items", "objects", "remaining", "version")

    def __init__(
        self, version: str, remaining: int, body: bytes, items: list[msgspec.Raw] | None, objects: Sequence[Any] | None
    ) -> None:
        """:param items: the objects as they stand in the body; None: not looked for yet."""
        self.version = version
        """The resource version of the whole."""
        self.remaining = remaining
        """At least so many objects follow; 0: this was the last page, or the server does not tell."""
        self.objects = objects
        """Decoded, where that was asked for and each of them can be; else None."""
        self._body = body
        self._items = items

    def texts(self) -> Iterator[bytes]:
        """The objects, as they came."""
        return map(bytes, self._found())

    def text(self, place: int) -> bytes:
        """One of them; the first one to be asked for costs as much as all."""
        return bytes(self._found()[place])

    def _found(self) -> list[msgspec.Raw]:
        items = self._items
        if items is None:
            items = self._items = _decode(self._body).items or []
        return items


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str | None = msgspec.field(default=None, name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


T = TypeVar("T")


class _List(msgspec.Struct, Generic[T]):
    metadata: _Metadata
    items: list[T] | None = None


_decode = msgspec.json.Decoder(_List[msgspec.Raw]).decode


@functools.lru_cache(maxsize=16)
def _decoder(type_: type[Object]) -> msgspec.json.Decoder[_List[Object]]:
    return msgspec.json.Decoder(_List[type_])  # type: ignore[valid-type]


def pages(
    connection: Connection,
    path: str,
    query: Mapping[str, str],
    *,
    accept: str,
    limit: int,
    read_as: type[Object] | None = None,
    read_timeout: Callable[[], float | None] = lambda: None,
) -> Iterator[Page]:
    """All pages of a list; it is complete when the iterator ends without an exception.

    :param query: selectors.
    :param limit: objects on a page; 0 asks for all at once.
    :param read_as: what to decode the objects to.
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
        page, token = _read(body, read_as)
        yield page
        del page, body  # what nobody keeps is gone before the next page comes
        if not token:
            return


def _read(body: bytes, read_as: type[Object] | None) -> tuple[Page, str]:
    """A page, and the token that the next one is to be had for; empty: this is the last one.

    :raises Broken: the body is no list.
    """
    found: _List[Any] | None = None
    items = objects = None
    if read_as is not None:
        try:
            found = _decoder(read_as).decode(body)
            objects = found.items or []
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # because of some object, or altogether: that is told from the texts
    if found is None:
        try:
            found = _decode(body)
        except msgspec.DecodeError as exc:
            raise Broken(f"the answer is no list: {exc}") from exc
        items = found.items or []
    metadata = found.metadata
    if not metadata.version:
        raise Broken("the answer is no list: it has no resourceVersion")
    token = metadata.token or ""
    return Page(metadata.version, (metadata.remaining or 1) if token else 0, body, items, objects), token
