# SPDX-License-Identifier: Apache-2.0
"""The state of a fake API server, without HTTP: objects, history, lists, faults and counters.

The HTTP handlers and the controllers both work on this state, and neither imports the other. ``server`` adds the
listening socket and the controllers. Thread-safe.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from watcher_sync.testing.http.faults import Fault, Faults, RequestAction
from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.faults import Action, AnyFault, Condition, Request, StreamAction, StreamFaults
from watcher_sync.testing.kubernetes.reads import Lists
from watcher_sync.testing.kubernetes.requests import Requests
from watcher_sync.testing.kubernetes.resources import NAMESPACES, PODS, Registry, ResourceType
from watcher_sync.testing.kubernetes.store import Item, Object, Store
from watcher_sync.testing.kubernetes.writes import Writes

WatchList = Literal["on", "refused", "ignored", "unavailable"]

GZIP_FROM_BYTES: Final = 128 * 1024
"""Bytes from which the server compresses a body for clients that accept it, as API servers do."""


class KubernetesApi:
    """The objects of a fake cluster, and the operations of its API."""

    def __init__(
        self,
        *,
        seed: int,
        history_limit: int,
        watch_list: WatchList,
        bookmark_interval: float,
        watch_timeout: float,
        gzip_from: int,
        token: str | None,
    ) -> None:
        """For the arguments see :class:`~watcher_sync.testing.kubernetes.server.KubernetesServer`."""
        self.watch_list = watch_list
        self.bookmark_interval = bookmark_interval
        self.watch_timeout = watch_timeout
        self.gzip_from = gzip_from
        self.token = token
        self.registry = Registry()
        self.store = Store(history_limit=history_limit)
        self.rng = random.Random(seed)
        self.writes = Writes(self.store, self.registry, clock=_now, rng=self.rng)
        self.lists = Lists(self.store)
        self.request_faults = Faults[RequestAction, Request]()
        self.stream_faults = StreamFaults()
        self.requests = Requests()
        for name in ("default", "kube-system"):
            self.writes.create(NAMESPACES, "", {"metadata": {"name": name}})

    def register(self, group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
        """Serve one more type, or one more version of a type."""
        resource = ResourceType(group, version, plural, kind, namespaced)
        is_new = all(served.collection != resource.collection for served in self.registry.all())
        self.registry.register(resource)
        if is_new:
            self.store.begin(resource)
        return resource

    def unregister(self, kind: str) -> None:
        """Delete the objects of a type, and serve it no more: its CustomResourceDefinition was deleted."""
        resource = self.registry.named(kind)
        with self.store.changed:
            for item in self.store.items(resource):
                self.store.remove(item)
            for version in self.registry.all():
                if version.collection == resource.collection:
                    self.registry.unregister(version)
        self.wake()

    def unserve(self, resource: ResourceType) -> None:
        """Serve a version of a type no more (``served: false``). Its watches end, and its objects remain."""
        self.registry.unregister(resource)
        self.wake()

    def create(self, obj: Object) -> Object:
        """Create it with its status; its namespace too, if need be. :returns: as it is now.

        :raises ApiError: as the API would.
        """
        return self._create(obj).decoded()

    def load(self, objects: Iterable[Object]) -> None:
        """Create many."""
        with self.store.changed:
            for obj in objects:
                self._create(obj)

    def _create(self, obj: Object) -> Item:
        resource = self._type_of(obj)
        namespace = str((obj.get("metadata") or {}).get("namespace") or "default")
        with self.store.changed:
            if resource.namespaced and self.store.find(NAMESPACES, "", namespace) is None:
                self.writes.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            return self.writes.create(resource, namespace, obj, keep_status=True)

    def update(self, obj: Object) -> Object:
        """Replace it, the status included. :raises ApiError: as the API would."""
        resource, metadata = self._type_of(obj), obj["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        return self.writes.update(resource, namespace, metadata["name"], obj, subresource="all").decoded()

    def patch(self, kind: str, name: str, change: Object, *, namespace: str = "default") -> Object:
        """Merge a change into it, the status included."""
        resource = self.registry.named(kind)
        inside = namespace if resource.namespaced else ""
        merge = "application/merge-patch+json"
        return self.writes.patch(resource, inside, name, merge, change, subresource="all").decoded()

    def delete(self, kind: str, name: str, *, namespace: str = "default", **options: Any) -> None:
        """Delete it. Options are those of DeleteOptions, for instance ``gracePeriodSeconds=0``."""
        self.writes.delete(self._item(kind, name, namespace), options)

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Object:
        """:raises ApiError: 404."""
        return self._item(kind, name, namespace).decoded()

    def objects(self, kind: str, *, namespace: str | None = None) -> list[Object]:
        """All of them, sorted by namespace and name."""
        resource = self.registry.named(kind)
        return [item.decoded() for item in self.store.snapshot(resource).of(namespace)[1]]

    def pods(self, namespace: str | None = None) -> list[Object]:
        """All pods, sorted by namespace and name."""
        return self.objects(PODS.kind, namespace=namespace)

    def fail(
        self,
        action: Action,
        *,
        path: str = "/",
        verb: str | None = None,
        when: Callable[[Request], bool] | None = None,
        count: int | None = 1,
        after: int = 0,
    ) -> AnyFault:
        """Order a fault.

        :param path: a prefix of the request's path.
        :param when: a further condition on the request.
        :param count: how often; None: until :meth:`Fault.stop`.
        :param after: how many requests, or events of a stream, pass unharmed before each time.
        """
        condition = Condition(path, verb, when)
        fault: AnyFault
        if isinstance(action, StreamAction):
            fault = Fault(action, condition, count=count, after=after, between=after)
            self.stream_faults.add(fault)
        else:
            fault = Fault(action, condition, count=count, after=after, between=after)
            self.request_faults.add(fault)
        self.wake()
        return fault

    def heal(self) -> None:
        """No fault happens any more, for what is asked from now on."""
        self.request_faults.clear()
        self.stream_faults.clear()

    def expire_pages(self) -> None:
        """All lists that are under way have to begin again (410)."""
        self.lists.expire()

    def compact(self) -> None:
        """Forget the history: a watch can only begin now (410)."""
        self.store.compact()

    def bookmark(self) -> None:
        """Send a bookmark on every watch that allows them."""
        self.store.ask_for_bookmarks()

    def authenticate(self, request: Request) -> None:
        """:raises ApiError: 401."""
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            raise errors.unauthorized()

    def _item(self, kind: str, name: str, namespace: str) -> Item:
        resource = self.registry.named(kind)
        return self.store.get(resource, namespace if resource.namespaced else "", name)

    def _type_of(self, obj: Object) -> ResourceType:
        resource = self.registry.by_kind(obj.get("apiVersion", "v1"), obj.get("kind", ""))
        if resource is None:
            raise errors.no_such_path()
        return resource

    def wake(self) -> None:
        """Wake all watches, so that they check their faults and the stop."""
        with self.store.changed:
            self.store.changed.notify_all()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
