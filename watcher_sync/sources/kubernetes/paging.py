# SPDX-License-Identifier: Apache-2.0
"""Reads a list page by page.

All pages are of one snapshot, and each has the resource version of that snapshot, which is opaque. The server may
drop the snapshot before the last page (410). Then the caller begins again, and must not treat unseen objects as
deleted.

Objects remain JSON text unless ``read_as`` names a type. With a type, one call decodes the whole page, in half the
time of splitting it and decoding each object. If one object does not fit the type, the page remains text, and the
caller reads each object for itself.

No state; any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from watcher_sync.sources.kubernetes.connection import MAX_ANSWER_BYTES, ApiConnection, ApiError, TransportError
from watcher_sync.wire.kubernetes import Object

_MAX_OBJECT_BYTES: Final = 256 * 1024
"""The mean size of the objects of a page may not be larger. One object may: API servers accept up to 3 MiB."""

_MAX_LIST_BYTES: Final = 256 * 1024 * 1024
"""The maximum size of a list that comes on one page."""


class ListExpired(Exception):
    """The server dropped the snapshot of the list: begin again."""


class ObjectPage:
    """A part of a list."""

    __slots__ = ("_body", "_items", "objects", "remaining", "version")

    def __init__(
        self, version: str, remaining: int, body: bytes, items: list[msgspec.Raw] | None, objects: Sequence[Any] | None
    ) -> None:
        """:param items: the texts of the objects; None: not split yet."""
        self.version = version
        """The resource version of the list."""
        self.remaining = remaining
        """At least so many objects follow; 0: this is the last page."""
        self.objects = objects
        """The decoded objects; None if no type was given or an object does not fit it."""
        self._body = body
        self._items = items

    @property
    def object_size(self) -> int:
        """The bytes of one object, as an average over the page."""
        count = len(self.objects if self.objects is not None else self._split())
        return len(self._body) // count if count else 0

    def texts(self) -> Iterator[bytes]:
        """The text of each object."""
        return map(bytes, self._split())

    def text(self, place: int) -> bytes:
        """The text of one object; the first call splits the page."""
        return bytes(self._split()[place])

    def _split(self) -> list[msgspec.Raw]:
        items = self._items
        if items is None:
            items = self._items = _decode(self._body).items or []
        return items


class _ListMetadata(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str | None = msgspec.field(default=None, name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


T = TypeVar("T")


class _ObjectList(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata
    items: list[T] | None = None


_decode = msgspec.json.Decoder(_ObjectList[msgspec.Raw]).decode


@functools.lru_cache(maxsize=16)
def _decoder(type_: type[Object]) -> msgspec.json.Decoder[_ObjectList[Object]]:
    return msgspec.json.Decoder(_ObjectList[type_])  # type: ignore[valid-type]


def pages(
    connection: ApiConnection,
    path: str,
    query: Mapping[str, str],
    *,
    accept: str,
    limit: int,
    read_as: type[Object] | None = None,
    read_timeout: Callable[[], float | None] = lambda: None,
) -> Iterator[ObjectPage]:
    """Give all pages of a list, which is complete when the iterator ends without an exception.

    :param query: selectors.
    :param limit: objects on a page; 0: all objects on one page.
    :param read_as: the type to decode the objects to.
    :param read_timeout: called for each page; returns seconds without a byte, or None for the connection's own.
    :raises ListExpired: after the first page.
    :raises ApiError, TransportError: from the connection, or because an answer is no list.
    """
    base_query = {**query, **({"limit": str(limit)} if limit else {})}
    token = ""
    while True:
        try:
            page_query = {**base_query, "continue": token} if token else base_query
            body = connection.read(
                path, page_query, accept=accept, read_timeout=read_timeout(), max_bytes=max_page_bytes(limit)
            )
        except ApiError as exc:
            if token and exc.gone:
                raise ListExpired from exc
            raise
        page, token = _read(body, read_as)
        yield page
        del page, body  # frees their memory before the next page arrives
        if not token:
            return


def max_page_bytes(limit: int) -> int:
    """The maximum size of a page: far above what API servers send, and far below the memory of a machine.

    :param limit: objects on the page; 0: all objects.
    """
    if not limit:
        return _MAX_LIST_BYTES
    return min(_MAX_LIST_BYTES, max(MAX_ANSWER_BYTES, limit * _MAX_OBJECT_BYTES))


def _read(body: bytes, read_as: type[Object] | None) -> tuple[ObjectPage, str]:
    """Decode a page; return it with the token of the next one, empty on the last page.

    :raises TransportError: the body is no list.
    """
    found: _ObjectList[Any] | None = None
    items = objects = None
    if read_as is not None:
        try:
            found = _decoder(read_as).decode(body)
            objects = found.items or []
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # one object does not fit, or the body is no list: the decode below decides
    if found is None:
        try:
            found = _decode(body)
        except msgspec.DecodeError as exc:
            raise TransportError(f"the answer is no list: {exc}") from exc
        items = found.items or []
    metadata = found.metadata
    if not metadata.version:
        raise TransportError("the answer is no list: it has no resourceVersion")
    token = metadata.token or ""
    return ObjectPage(metadata.version, (metadata.remaining or 1) if token else 0, body, items, objects), token
