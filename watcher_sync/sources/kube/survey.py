# SPDX-License-Identifier: Apache-2.0
"""Everything that a source follows in a cluster, listed once, for whoever compares.

A reflector tells what is new; this tells what there is. Each resource of each namespace is listed for itself, and
one that cannot be listed to its end says why and nothing else: a list that failed, or was cut in the
middle, is no list. The number of requests depends on the number of objects and the size of a page, on
nothing else. No state; any thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.kube import resources
from watcher_sync.sources.kube.connection import Broken, Connection, KubeError
from watcher_sync.sources.kube.listing import ListExpired, pages
from watcher_sync.sources.kube.resources import Resource


class Surveyed(msgspec.Struct, kw_only=True):
    """One resource of one namespace."""

    resource: Resource
    namespace: str | None
    """None: of all namespaces."""
    objects: Sequence[bytes] = ()
    """JSON texts."""
    failure: str | None = None
    """Why it could not be listed; None: ``objects`` is all there is."""
    requests: int = 0

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
    """List everything, one after the other; raises nothing that the cluster does.

    :param deadline: ``time.monotonic()`` after which no request is begun.
    """
    for resource, namespace in scope.targets:
        found = Surveyed(resource=resource, namespace=namespace)
        try:
            _list(connection, scope, found, deadline)
        except KubeError as exc:
            found.objects, found.failure = (), str(exc) or type(exc).__name__
        yield found


def _list(connection: Connection, scope: Scope, found: Surveyed, deadline: float) -> None:
    if not found.resource.plural:
        found.requests += 1
        found.resource = _discovered(connection, found.resource, _timeout(scope, deadline))
    resource = found.resource
    accept = resources.METADATA_LIST if resource.metadata_only else resources.WHOLE
    selectors = {"labelSelector": scope.label_selector} if scope.label_selector else {}
    for limit in (scope.page_size, scope.page_size, 0):  # at last all at once: it changes faster than our pages
        objects: list[bytes] = []
        listing = pages(
            connection,
            resource.path(found.namespace),
            selectors,
            accept=accept,
            limit=limit,
            read_timeout=lambda: _timeout(scope, deadline),
        )
        try:
            for page in listing:
                found.requests += 1
                objects += map(bytes, page.items)
        except ListExpired:
            found.requests += 1
            continue
        found.objects = objects
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
