# SPDX-License-Identifier: Apache-2.0
"""Lists everything that a source follows in a cluster once, for a comparison with the model.

Each resource of each namespace is one listing. A listing that fails or is cut off has a failure, and must not count
as complete. The number of requests depends on the number of objects and on the page size alone. The listing is a
generator of pages, so a caller need not store all texts at once. No state; any thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.kubernetes.connection import ApiConnection, KubernetesError, TransportError
from watcher_sync.sources.kubernetes.lister_watcher import ListerWatcher
from watcher_sync.sources.kubernetes.resources import Resource


class ListingPart(msgspec.Struct, kw_only=True):
    """A part of the listing of one resource in one namespace: a page, or the end."""

    resource: Resource
    namespace: str | None
    """None: all namespaces."""
    objects: Sequence[bytes] = ()
    """JSON texts."""
    begins: bool = False
    """Whether the listing begins here, or begins again: the caller discards its earlier parts."""
    ends: bool = False
    """Whether the listing is over: it is complete, or ``failure`` says why it is not."""
    failure: str | None = None
    requests: int = 0
    """Requests that were sent for this part."""

    def event(self, data: bytes, *, source: str, cluster: str, what: str = "added") -> Event:
        """Return the event that a reflector would emit for an object, without a place in the order.

        :param what: added, or deleted.
        """
        return Event(
            id="",
            type=self.resource.event_type(what),
            source=source,
            origin=cluster,
            data=data,
            sequence=(0, 0),
            size=len(data),
        )


class ListingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to list, and how."""

    targets: Sequence[tuple[Resource, str | None]]
    """(resource, namespace); the namespace None: all namespaces."""
    label_selector: str = ""
    page_size: int = 500
    read_timeout: float = 30.0
    """Seconds without a byte."""


def list_all(connection: ApiConnection, request: ListingRequest, *, deadline: float) -> Iterator[ListingPart]:
    """List one target after the other, page by page; the cluster's errors become failures of parts.

    :param deadline: ``time.monotonic()`` after which no request is sent.
    """
    for resource, namespace in request.targets:
        try:
            yield from _list_target(connection, request, resource, namespace, deadline)
        except KubernetesError as exc:
            failure = str(exc) or type(exc).__name__
            yield ListingPart(resource=resource, namespace=namespace, ends=True, failure=failure, requests=1)


def _list_target(
    connection: ApiConnection, request: ListingRequest, resource: Resource, namespace: str | None, deadline: float
) -> Iterator[ListingPart]:
    """:raises KubernetesError: the listing is incomplete."""

    def read_timeout() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransportError("the deadline has passed")
        return min(request.read_timeout, left)

    api = ListerWatcher(
        connection, resource, namespace, label_selector=request.label_selector, page_size=request.page_size
    )
    requests = 0
    if not api.is_discovered:
        requests = 1
        api.discover(read_timeout=read_timeout())
    for begins, page in api.pages(read_timeout=read_timeout):
        yield ListingPart(
            resource=api.resource,
            namespace=namespace,
            objects=list(page.texts()),
            begins=begins,
            requests=requests + 1,
        )
        requests = 0
        del page  # frees its memory before the next page arrives
    yield ListingPart(resource=api.resource, namespace=namespace, ends=True)
