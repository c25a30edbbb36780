# SPDX-License-Identifier: Apache-2.0
"""Sends the list and watch requests for one resource of one cluster, and reads its lists page by page.

Client-go has the same division. The lister-watcher knows how to ask the server. The reflector decides when to list,
from which version to watch, and what to do after an error.

Attributes of the lister-watcher: the resource and the namespace (discovery completes both), the query parameters, the
size of a page, and the open watch. It stores neither objects nor versions, and it does not retry.

One thread sends the requests. :meth:`ListerWatcher.cut` is for any thread.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec
import urllib3

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source import discovery, resources, watch_stream
from watcher_sync.extensions.kubernetes.source.connection import (
    MAX_ANSWER_BYTES,
    ApiConnection,
    ApiError,
    TooLarge,
    TransportError,
    api_error,
)
from watcher_sync.extensions.kubernetes.source.resources import Resource
from watcher_sync.extensions.kubernetes.wire.kubernetes import Object

_METADATA: Final = f"{resources.WHOLE};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_MAX_LIST_BYTES: Final = 256 * 1024 * 1024
"""The maximum size of a list that comes on one page."""


class ListExpired(Exception):
    """The server dropped the snapshot of the list: begin again."""


class ObjectPage:
    """A part of a list."""

    __slots__ = ("_body", "_items", "objects", "remaining", "unread", "version")

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
        self.unread = ""
        """Which object is too large, so that the page has only its metadata; empty: the page has whole objects."""
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


class _Name(msgspec.Struct):
    name: str
    uid: str
    namespace: str | None = None


class _Named(msgspec.Struct):
    metadata: _Name


T = TypeVar("T")
ReadTimeout = Callable[[], float | None]
"""Seconds without a byte; None: the connection's own."""


class _ObjectList(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata
    items: list[T] | None


_decode = msgspec.json.Decoder(_ObjectList[msgspec.Raw]).decode
_decode_named = msgspec.json.Decoder(_Named).decode


@functools.lru_cache(maxsize=16)
def _decoder(type_: type[Object]) -> msgspec.json.Decoder[_ObjectList[Object]]:
    return msgspec.json.Decoder(_ObjectList[type_])  # type: ignore[valid-type]


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
        except UNDECODABLE:
            pass  # one object does not fit, or the body is no list: the decode below decides
    if found is None:
        try:
            found = _decode(body)
        except UNDECODABLE as exc:
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
        self._page_size = self._limit = page_size
        """The largest number of objects on a page, and that of the next page."""
        self._version = ""
        """The version that discovery found last, if none is named."""
        self.requests = 0
        """Requests of discovery and lists that were sent."""
        self._selectors = {"labelSelector": label_selector} if label_selector else {}
        self._response: urllib3.BaseHTTPResponse | None = None

    @property
    def name(self) -> str:
        """What is listed and watched, for log lines."""
        return f"{self.resource.name} of {self.namespace}" if self.namespace else self.resource.name

    @property
    def is_discovered(self) -> bool:
        """Whether plural and version of the resource are known, which all other requests need."""
        return bool(self.resource.plural)

    def discover(self, *, read_timeout: ReadTimeout = lambda: None) -> str:
        """Find the plural of the kind, whether it is namespaced, and a version if none is named.

        :returns: the version, if none is named and it is another one than before; else empty.
        :raises NotServed, KubernetesError: as :func:`~watcher_sync.extensions.kubernetes.source.discovery.find`.
        """
        self.resource = found = discovery.find(
            self._named, lambda path: self._read(path, read_timeout, max_bytes=discovery.MAX_BYTES)
        )
        self.namespace = self._named_namespace if found.namespaced else None
        if self._named.version or found.version == self._version:
            return ""
        self._version = found.version
        return found.version

    def undiscover(self) -> bool:
        """Forget what discovery found, because it may be out of date. Return whether it is needed again."""
        self.resource = self._named
        return not self.is_discovered

    def pages(
        self, *, read_as: type[Object] | None = None, read_timeout: ReadTimeout = lambda: None
    ) -> Iterator[tuple[bool, ObjectPage]]:
        """List page by page; give each page with whether a listing begins there, because the last one expired.

        The list is complete when the iterator ends without an exception. All pages of a listing are of one snapshot,
        and each has the resource version of that snapshot, which is opaque. The server may drop the snapshot before the
        last page (410). The last attempt asks for everything on one page, because the history expires faster than the
        server delivers the pages.

        A page that is too large is asked for again with half the objects. An object that is too large by itself is a
        page of its metadata, with :attr:`ObjectPage.unread` set.

        Objects remain JSON text unless ``read_as`` names a type. With a type, one call decodes the whole page, in half
        the time of splitting it and decoding each object. If one object does not fit the type, the page remains text,
        and the caller reads each object for itself.

        :param read_as: the type to decode the objects to.
        :param read_timeout: called for each request; returns seconds without a byte, or None for the connection's own.
        :raises ApiError, TransportError: from the connection, or because an answer is no list or all attempts expired.
        """
        for whole in (False, False, True):
            begins, token = True, ""
            try:
                while True:
                    last_token = token
                    page, token = self._page(token, whole, read_as, read_timeout)
                    if token and token == last_token:
                        raise TransportError("the list does not end: its pages repeat")
                    yield begins, page
                    begins = False
                    del page  # frees its memory before the next page arrives
                    if not token:
                        return
            except ListExpired:
                continue
        raise TransportError("the list expires before its end")

    def _page(
        self, token: str, whole: bool, read_as: type[Object] | None, read_timeout: ReadTimeout
    ) -> tuple[ObjectPage, str]:
        """Return the next page, and the token of the one after it, empty on the last page.

        :param token: of this page; empty for the first one. It is good for any number of objects.
        :param whole: ask for everything on one page.
        """
        while True:
            limit, most = (0, _MAX_LIST_BYTES) if whole else (self._limit, MAX_ANSWER_BYTES)
            try:
                body = self._list(token, limit, resources.WHOLE, most, read_timeout)
            except TooLarge:
                if whole:
                    raise
                if limit == 1:
                    return self._metadata(token, read_timeout)
                self._limit = limit // 2
                continue
            page, token = _read(body, read_as)
            if token and 4 * len(body) < most:
                self._limit = min(2 * self._limit, self._page_size)
            return page, token

    def _metadata(self, token: str, read_timeout: ReadTimeout) -> tuple[ObjectPage, str]:
        """Return the metadata of an object that is too large, and the token of the next page."""
        page, token = _read(self._list(token, 1, _METADATA, MAX_ANSWER_BYTES, read_timeout), None)
        try:
            (found,) = map(_decode_named, page.texts())
        except (*UNDECODABLE, ValueError) as exc:
            raise TransportError(f"the answer is no list of one object's metadata: {exc}") from exc
        name = "/".join(filter(None, (found.metadata.namespace, found.metadata.name)))
        page.unread = f"{name} has more than {MAX_ANSWER_BYTES} bytes"
        return page, token

    def _list(self, token: str, limit: int, accept: str, max_bytes: int, read_timeout: ReadTimeout) -> bytes:
        """:param limit: objects on the page; 0: all of them."""
        query = {
            **self._selectors,
            **({"limit": str(limit)} if limit else {}),
            **({"continue": token} if token else {}),
        }
        try:
            return self._read(self.resource.path(self.namespace), read_timeout, query, accept, max_bytes)
        except ApiError as exc:
            if token and exc.gone:
                raise ListExpired from exc
            raise

    def _read(
        self,
        path: str,
        read_timeout: ReadTimeout,
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = resources.WHOLE,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        seconds = read_timeout()
        self.requests += 1
        return self._connection.read(path, query, accept=accept, read_timeout=seconds, max_bytes=max_bytes)

    def newest_version(self) -> str:
        """Return the version that the resource has now, from a list of one object.

        :raises ApiError, TransportError: the request failed.
        """
        body = self._list("", 1, f"{_METADATA},{resources.WHOLE}", MAX_ANSWER_BYTES, lambda: None)
        return _read(body, None)[0].version

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
