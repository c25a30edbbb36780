# SPDX-License-Identifier: Apache-2.0
"""A followed cluster as the configuration describes it, and one complete listing of it, for comparisons with the model.

A :class:`ClusterTarget` is plain data: it has no connection and starts no thread.

In :func:`list_all` each resource of each namespace is one listing. A listing that fails or is cut off has a failure,
and must not count as complete. The number of requests depends on the number of objects and on the page size alone. The
listing is a generator of pages, so a caller need not store all texts at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.source import resources
from watcher_sync.extensions.kubernetes.source.connection import (
    ApiConnection,
    KubernetesError,
    NotServed,
    TransportError,
)
from watcher_sync.extensions.kubernetes.source.credentials import Access, CredentialsError, check_access
from watcher_sync.extensions.kubernetes.source.exec_credential import ExecSettings
from watcher_sync.extensions.kubernetes.source.lister_watcher import ListerWatcher
from watcher_sync.extensions.kubernetes.source.resources import Resource
from watcher_sync.extensions.kubernetes.source.watch_stream import metadata_of
from watcher_sync.extensions.kubernetes.wire.custom_kinds import parse_entries


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
    unread: Mapping[str, str] = {}
    """The uid of an object that is too large to be read -> which one it is."""
    unserved: bool = False
    """Whether the server answered that no version has the kind: the listing is complete and empty."""
    requests: int = 0
    """Requests that were sent for this part."""

    def event(self, data: bytes, *, source: str, cluster: str, what: str = "added") -> Event:
        """Return the event that a reflector would emit for an object, without a place in the order.

        :param what: added, or absent.
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

    A kind that proves to have no namespaces is listed once.

    :param deadline: ``time.monotonic()`` after which no request is sent.
    """
    whole: set[str] = set()
    for resource, namespace in request.targets:
        if resource.title in whole:
            continue
        api = ListerWatcher(
            connection, resource, namespace, label_selector=request.label_selector, page_size=request.page_size
        )
        end = ListingPart(resource=resource, namespace=namespace, ends=True)
        sent = 0
        try:
            for part in _list_target(api, request, namespace, deadline):
                part.requests, sent = api.requests - sent, api.requests
                yield part
        except NotServed:
            end.begins = end.unserved = True
        except KubernetesError as exc:
            end.failure = str(exc) or type(exc).__name__
        end.resource, end.requests = api.resource, api.requests - sent
        yield end
        if not api.resource.namespaced:
            whole.add(resource.title)


def _list_target(
    api: ListerWatcher, request: ListingRequest, namespace: str | None, deadline: float
) -> Iterator[ListingPart]:
    """Yield all parts but the end. :raises KubernetesError: the listing is incomplete."""

    def read_timeout() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransportError("the deadline has passed")
        return min(request.read_timeout, left)

    if not api.is_discovered:
        api.discover(read_timeout=read_timeout)
    for begins, page in api.pages(read_timeout=read_timeout):
        texts = list(page.texts())
        yield ListingPart(
            resource=api.resource,
            namespace=namespace,
            objects=[] if page.unread else texts,
            begins=begins,
            unread={metadata_of(text).uid: page.unread for text in texts} if page.unread else {},
        )
        del page  # frees its memory before the next page arrives


_LIST_TIMEOUT_SECONDS: Final = 30.0
"""Seconds without a byte of a list after which it has failed; only a watch may be silent for longer."""


class ClusterTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster that a source of driver ``kubernetes`` follows. For any thread."""

    cluster: str
    """Name of the cluster in the model."""
    source: str
    """Name of the source that follows it."""
    access: Access
    resources: tuple[Resource, ...]
    """What the source follows."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that it follows; empty: all."""
    label_selector: str = ""
    page_size: int = 500
    connect_timeout: float = 5.0
    """Seconds that a connection may take."""
    read_timeout: float = 70.0
    """Seconds without a byte after which a connection counts as dead."""
    unfollowed: frozenset[str] = frozenset()
    """Kinds of objects that pods come from and that the source does not follow: the model knows nothing of them."""

    def follows(self, namespace: str | None) -> bool:
        """Whether the source follows the objects of a namespace."""
        return not self.namespaces or namespace in self.namespaces

    def listed(self) -> list[tuple[Resource, str | None]]:
        """(resource, namespace) of all that is followed; the namespace None: all of them."""
        return [(r, n) for r in self.resources for n in dict.fromkeys(self.namespaces or (None,))]

    def connect(self) -> ApiConnection:
        """Make a connection. It sends nothing before its first request; threads may share it."""
        return ApiConnection(self.access, connect_timeout=self.connect_timeout, read_timeout=self.read_timeout)

    def list_objects(
        self, connection: ApiConnection, namespace: str | None = None, *, deadline: float
    ) -> Iterator[ListingPart]:
        """List once what the source follows.

        :param namespace: only this one of those that are followed, and no custom objects; None: all of them.
        :param deadline: ``time.monotonic()`` after which no request is begun.
        """
        listed = self.listed()
        if namespace is not None:
            listed = [(r, n) for r, n in listed if n in (None, namespace) and not r.custom]
            listed = [(r, namespace if r.namespaced else n) for r, n in listed]
        request = ListingRequest(
            targets=listed,
            label_selector=self.label_selector,
            page_size=self.page_size,
            read_timeout=min(self.read_timeout, _LIST_TIMEOUT_SECONDS),
        )
        return list_all(connection, request, deadline=deadline)


def read_target(name: str, conf: cfg.ConfigOpts) -> ClusterTarget:
    """The target of one source, whose options are registered.

    :raises ConfigError: naming the option that is wrong.
    """
    group = conf[f"source_{name}"]
    followed = _read_resources(name, group)
    _check_access(name, group)
    known = {resource.kind for resource in resources.KNOWN.values()}
    return ClusterTarget(
        cluster=group.cluster or name,
        source=name,
        access=read_access(group),
        resources=followed,
        namespaces=tuple(group.namespaces),
        label_selector=group.label_selector,
        page_size=group.page_size,
        connect_timeout=group.connect_timeout,
        read_timeout=group.read_timeout,
        unfollowed=frozenset(known - {resource.title for resource in followed}),
    )


def read_access(group: Any) -> Access:
    """Where the credentials of a source come from."""
    return Access(
        kubeconfig=group.kubeconfig,
        context=group.context,
        in_cluster=group.in_cluster,
        exec_settings=ExecSettings(timeout=group.exec_timeout, environment=tuple(group.exec_environment)),
    )


def _check_access(name: str, group: Any) -> None:
    if group.in_cluster and (group.kubeconfig or group.context):
        option = "kubeconfig" if group.kubeconfig else "context"
        raise ConfigError(f"[source_{name}] {option}: cannot be set beside in_cluster")
    if not group.in_cluster:
        try:
            check_access(read_access(group))
        except CredentialsError as exc:
            raise ConfigError(f"[source_{name}] kubeconfig: {exc}") from None


def _read_resources(name: str, group: Any) -> tuple[Resource, ...]:
    try:
        found = tuple(dict.fromkeys(resources.parse(resource) for resource in group.resources))
    except ValueError as exc:
        raise ConfigError(f"[source_{name}] resources: {exc}") from None
    try:
        custom = tuple(resources.of_custom_kind(each) for each in parse_entries(group.kinds))
    except ValueError as exc:
        raise ConfigError(f"[source_{name}] kinds: {exc}") from None
    titles = [resource.title.lower() for resource in found]
    if twice := [resource.title for resource in found if titles.count(resource.title.lower()) > 1]:
        raise ConfigError(f"[source_{name}] resources: {twice[0]} is given twice")
    titles += [resource.title.lower() for resource in resources.KNOWN.values()]
    if twice := [resource.title for resource in custom if resource.title.lower() in titles]:
        raise ConfigError(f"[source_{name}] kinds: {twice[0]} is a pod or a workload, which resources names")
    if not found + custom:
        raise ConfigError(f"[source_{name}] resources: names nothing to follow")
    return found + custom
