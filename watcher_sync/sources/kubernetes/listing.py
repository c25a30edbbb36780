# SPDX-License-Identifier: Apache-2.0
"""Everything that a source follows in a cluster, listed once, for whoever compares.

A reflector tells what is new; this tells what there is. Each resource of each namespace is listed for itself, and
one that cannot be listed to its end says why and nothing else: a list that failed, or was cut in the
middle, is no list. The number of requests depends on the number of objects and the size of a page, on
nothing else. It comes page by page, so that nobody needs to hold the texts of a hundred thousand objects.
No state; any thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.kubernetes import resources
from watcher_sync.sources.kubernetes.connection import Broken, Connection, KubeError
from watcher_sync.sources.kubernetes.paging import ListExpired, pages
from watcher_sync.sources.kubernetes.resources import Resource


class Surveyed(msgspec.Struct, kw_only=True):
    """A part of one resource of one namespace: a page, or its end."""

    resource: Resource
    namespace: str | None
    """None: of all namespaces."""
    objects: Sequence[bytes] = ()
    """JSON texts."""
    begins: bool = False
    """Whether the list begins here, or begins anew: what came of it before counts for nothing."""
    ends: bool = False
    """Whether it is over: all is there, or ``failure`` says why it is not."""
    failure: str | None = None
    requests: int = 0
    """That were made for this part."""

    def event(self, data: bytes, *, source: str, cluster: str, what: str = "added") -> Event:
        """What a reflector of this source would tell of an object, but for its place in the order.

        :param what: added, or deleted.
        """
        return Event(
            id="", type=self.resource.event_type(what), source=source, origin=cluster, data=data, sequence=(0, 0)
        )


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be listed, and how."""

    targets: Sequence[tuple[Resource, str | None]]
    """(resource, namespace); the namespace None: all of them."""
    label_selector: str = ""
    page_size: int = 500
    read_timeout: float = 30.0
    """Seconds without a byte."""


def survey(connection: Connection, scope: Scope, *, deadline: float) -> Iterator[Surveyed]:
    """List everything, one after the other, page by page; raises nothing that the cluster does.

    :param deadline: ``time.monotonic()`` after which no request is begun.
    """
    for resource, namespace in scope.targets:
        try:
            yield from _list(connection, scope, resource, namespace, deadline)
        except KubeError as exc:
            failure = str(exc) or type(exc).__name__
            yield Surveyed(resource=resource, namespace=namespace, ends=True, failure=failure, requests=1)


def _list(
    connection: Connection, scope: Scope, resource: Resource, namespace: str | None, deadline: float
) -> Iterator[Surveyed]:
    """:raises KubeError: when the list does not come to its end."""
    discovered = 0
    if not resource.plural:
        discovered = 1
        resource = _discovered(connection, resource, _timeout(scope, deadline))
    accept = resources.METADATA_LIST if resource.metadata_only else resources.WHOLE
    selectors = {"labelSelector": scope.label_selector} if scope.label_selector else {}
    for limit in (scope.page_size, scope.page_size, 0):  # at last all at once: it changes faster than our pages
        listing = pages(
            connection,
            resource.path(namespace),
            selectors,
            accept=accept,
            limit=limit,
            read_timeout=lambda: _timeout(scope, deadline),
        )
        part = Surveyed(resource=resource, namespace=namespace, begins=True, requests=discovered)
        try:
            for page in listing:
                part.objects = list(page.texts())
                part.requests += 1
                yield part
                part = Surveyed(resource=resource, namespace=namespace)
        except ListExpired:
            discovered = part.requests + 1  # the request that was refused
            continue
        part.ends = True
        yield part
        return
    raise Broken("the list expires before its end")


def _discovered(connection: Connection, resource: Resource, timeout: float) -> Resource:
    """The resource with its plural, which an operator did not name."""
    try:
        complete = resources.complete(resource, connection.read(resource.base, read_timeout=timeout))
    except msgspec.DecodeError as exc:
        raise Broken(f"discovery of {resource.base}: {exc}") from exc
    if complete is None:
        raise Broken(f"the server has no kind {resource.kind} in {resource.base}")
    return complete


def _timeout(scope: Scope, deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Broken("there was no time left")
    return min(scope.read_timeout, left)
