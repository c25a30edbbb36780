# SPDX-License-Identifier: Apache-2.0
"""Sends the list and watch requests for one resource of one cluster, and reads its lists page by page.

Client-go has the same division. The lister-watcher knows how to ask the server. The reflector decides when to list,
from which version to watch, and what to do after an error.

Attributes of the lister-watcher: the resource and the namespace (discovery completes both), the query parameters,
and the response of the open watch. It stores neither objects nor versions, and it does not retry.

One thread sends the requests. :meth:`ListerWatcher.cut` is for any thread.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
import urllib3

from watcher_sync.sources.kubernetes import resources, watch_stream
from watcher_sync.sources.kubernetes.connection import (
    MAX_ANSWER_BYTES,
    ApiConnection,
    ApiError,
    NotServed,
    TransportError,
    api_error,
)
from watcher_sync.sources.kubernetes.resources import Resource
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

    All pages are of one snapshot, and each has the resource version of that snapshot, which is opaque. The server may
    drop the snapshot before the last page (410). Then the caller begins again, and must not treat unseen objects as
    deleted.

    Objects remain JSON text unless ``read_as`` names a type. With a type, one call decodes the whole page, in half the
    time of splitting it and decoding each object. If one object does not fit the type, the page remains text, and the
    caller reads each object for itself.

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


class HistoryExpired(Exception):
    """The server no longer has the version at which a watch shall begin: list again."""


class WatchListUnsupported(Exception):
    """The server does not send initial events on a watch."""


class ListerWatcher:
    """The requests for one resource, in one namespace or in all."""

    def __init__(
        self,
        connection: ApiConnection,
        resource: Resource,
        namespace: str | None,
        *,
        label_selector: str = "",
        page_size: int = 500,
    ) -> None:
        """:param namespace: None: all namespaces."""
        self.resource = self._named = resource
        self.namespace = self._named_namespace = namespace
        self._connection = connection
        self._page_size = page_size
        self._selectors = {"labelSelector": label_selector} if label_selector else {}
        self._response: urllib3.BaseHTTPResponse | None = None

    @property
    def name(self) -> str:
        """What is listed and watched, for log lines."""
        return f"{self.resource.name} of {self.namespace}" if self.namespace else self.resource.name

    @property
    def is_discovered(self) -> bool:
        """Whether the plural of the resource is known, which all other requests need."""
        return bool(self.resource.plural)

    def discover(self, *, read_timeout: float | None = None) -> None:
        """Read the plural of the kind, and whether it is namespaced, from the server.

        :raises NotServed: the server answered that it has no such kind, or not its group and version.
        :raises KubernetesError: the request failed.
        """
        base, complete = self.resource.base, None
        try:
            complete = resources.complete(self.resource, self._connection.read(base, read_timeout=read_timeout))
        except msgspec.DecodeError as exc:
            raise TransportError(f"discovery of {base}: {exc}") from exc
        except ApiError as exc:
            if exc.code != 404:
                raise
        if complete is None:
            raise NotServed(f"the server does not serve the kind {self.resource.kind} in {base}")
        self.resource = complete
        self.namespace = self._named_namespace if complete.namespaced else None

    def undiscover(self) -> bool:
        """Forget what discovery found, because it may be out of date. Return whether it is needed again."""
        self.resource = self._named
        return not self.is_discovered

    def pages(
        self,
        *,
        read_as: type[Object] | None = None,
        read_timeout: Callable[[], float | None] = lambda: None,
    ) -> Iterator[tuple[bool, ObjectPage]]:
        """List page by page; give each page with whether a listing begins there, because the last one expired.

        The last attempt asks for everything on one page, because the history expires faster than the server delivers
        the pages. For the arguments and the other exceptions see :func:`paging.pages`.

        :raises TransportError: all attempts expired.
        """
        for limit in (self._page_size, self._page_size, 0):
            begins = True
            try:
                for page in pages(
                    self._connection,
                    self.resource.path(self.namespace),
                    self._selectors,
                    accept=resources.WHOLE,
                    limit=limit,
                    read_as=read_as,
                    read_timeout=read_timeout,
                ):
                    yield begins, page
                    begins = False
                    del page  # frees its memory before the next page arrives
                return
            except ListExpired:
                continue
        raise TransportError("the list expires before its end")

    def newest_version(self) -> str:
        """Return the version that the resource has now, from a list of one object.

        :raises ApiError, TransportError: the request failed.
        """
        path = self.resource.path(self.namespace)
        page = next(pages(self._connection, path, self._selectors, accept=resources.WHOLE, limit=1))
        return page.version

    @contextlib.contextmanager
    def watch(
        self, version: str | None, *, timeout: int, read_timeout: float | None = None
    ) -> Iterator[Iterator[list[bytes]]]:
        """Open a watch and give its lines (see :func:`watch_stream.batches`); close it at the end of the block.

        :param version: where the watch begins; None: with an event for each existing object (WatchList).
        :param timeout: seconds after which the server shall end the watch.
        :param read_timeout: seconds without a byte; None: the connection's own.
        :raises HistoryExpired: when opening: the version is too old.
        :raises WatchListUnsupported: when opening: the server refuses to send initial events.
        :raises KubernetesError: when opening: any other failure.
        """
        response = self._open(version, timeout, read_timeout)
        self._response = response
        try:
            yield watch_stream.batches(response)
        finally:
            self._response = None
            response.close()

    def cut(self) -> None:
        """Shut down the open watch, so that its reader ends."""
        response = self._response
        if response is not None:
            with contextlib.suppress(Exception):  # the watch may end at the same moment
                response.shutdown()

    @staticmethod
    def stream_error(status: bytes) -> Exception:
        """Return the exception for the Status object of an error event in a watch."""
        error = api_error(status)
        return HistoryExpired() if error.gone else error

    def _open(self, version: str | None, timeout: int, read_timeout: float | None) -> urllib3.BaseHTTPResponse:
        query = {**self._selectors, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout)}
        if version is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = version
        try:
            return self._connection.open(
                self.resource.path(self.namespace),
                query,
                accept=resources.WHOLE,
                read_timeout=read_timeout,
            )
        except ApiError as exc:
            if version is None and exc.code in (400, 422):
                raise WatchListUnsupported from exc
            if exc.gone:
                raise HistoryExpired from exc
            raise
