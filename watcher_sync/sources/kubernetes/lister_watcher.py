# SPDX-License-Identifier: Apache-2.0
"""Sends the list and watch requests for one resource of one cluster.

Client-go has the same division. The lister-watcher knows how to ask the server. The reflector decides when to list,
from which version to watch, and what to do after an error.

Attributes of the lister-watcher: the resource and the namespace (discovery completes both), the query parameters,
and the response of the open watch. It stores neither objects nor versions, and it does not retry.

One thread sends the requests. :meth:`ListerWatcher.cut` is for any thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import msgspec
import urllib3

from watcher_sync.sources.kubernetes import paging, resources, watch_stream
from watcher_sync.sources.kubernetes.connection import ApiConnection, ApiError, TransportError, api_error
from watcher_sync.sources.kubernetes.paging import ListExpired, ObjectPage
from watcher_sync.sources.kubernetes.resources import Resource
from watcher_sync.wire.kubernetes import Object


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
        self.resource = resource
        self.namespace = namespace
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

        :raises KubernetesError: the request failed, or the server does not serve this kind.
        """
        base = self.resource.base
        try:
            complete = resources.complete(self.resource, self._connection.read(base, read_timeout=read_timeout))
        except msgspec.DecodeError as exc:
            raise TransportError(f"discovery of {base}: {exc}") from exc
        if complete is None:
            raise TransportError(f"the server has no kind {self.resource.kind} in {base}")
        self.resource = complete
        if not complete.namespaced:
            self.namespace = None

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
                for page in paging.pages(
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
