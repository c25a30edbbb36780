# SPDX-License-Identifier: Apache-2.0
"""The server as tests hold it: objects in, faults in, counts out::

    with KubeServer() as server:
        server.create(deployment("vdu1", replicas=3))
        server.cluster.settle()
        reflector = ...(server.kubeconfig(tmp_path / "kubeconfig"))
        server.requests.wait_for_watches(1, "pods")
        server.fail(error_event(410), path="/api/v1/pods", after=2)

It can be stopped and started again on the same port with its objects, as an API server that dies.
"""

from __future__ import annotations

import datetime
import http.server
import json
import pathlib
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.cluster import Cluster
from watcher_sync.testing.kubernetes.connections import Connections
from watcher_sync.testing.kubernetes.faults import Action, Fault, Faults, Request
from watcher_sync.testing.kubernetes.http import GZIP_FROM, bind
from watcher_sync.testing.kubernetes.reads import Lists
from watcher_sync.testing.kubernetes.requests import Requests
from watcher_sync.testing.kubernetes.resources import NAMESPACES, PODS, Registry, ResourceType
from watcher_sync.testing.kubernetes.store import Item, Object, Store
from watcher_sync.testing.kubernetes.writes import Writes

WatchList = Literal["on", "refused", "ignored"]


class KubeServer:
    """A fake Kubernetes API server on loopback.

    What it guarantees is what the API documents, and what the modules of this package say. What it does
    not do: validation of fields, admission, roles, defaults beyond the few that clients rely on.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int = 0,
        history_limit: int = 10_000,
        watch_list: WatchList = "on",
        bookmark_interval: float = 60.0,
        watch_timeout: float = 1800.0,
        gzip_from: int = GZIP_FROM,
        token: str | None = None,
    ) -> None:
        """
        :param port: 0 takes any that is free.
        :param seed: of uids and generated names.
        :param history_limit: how many writes back a watch may begin.
        :param watch_list: ``on``: sendInitialEvents is understood; ``refused``: answered with 422, as by a
            server that has it switched off; ``ignored``: as by one that is older than it.
        :param bookmark_interval: seconds between bookmarks.
        :param watch_timeout: seconds after which a watch ends that named no timeoutSeconds.
        :param gzip_from: bytes from which bodies are compressed.
        :param token: the bearer token that is asked for; None lets everybody in.
        """
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
        self.cluster = Cluster(self)
        self.faults = Faults()
        self.requests = Requests()
        self.connections = Connections()
        self.stopping = threading.Event()
        self._host = host
        self._port = port
        self._http: http.server.ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        for name in ("default", "kube-system"):
            self.writes.create(NAMESPACES, "", {"metadata": {"name": name}})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; on the same port as before, if there was one. Nothing happens when it does already.

        :raises OSError: when the port is taken.
        """
        if self._http is not None:
            return
        self.stopping.clear()
        self.connections.open()
        self._http, serve = bind(self, self._host, self._port)
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(target=serve, name="kube-api-server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cut all connections and listen no more. The objects stay."""
        if self._http is None or self._thread is None:
            return
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._wake()
        self.connections.close()
        self._http = None

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    def kubeconfig(self, path: pathlib.Path | str, *, context: str = "fake") -> str:
        """Write a kubeconfig for this server, and return its path."""
        user = {"token": self.token} if self.token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": context, "user": user}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "default"}}],
            "current-context": context,
        }
        pathlib.Path(path).write_text(json.dumps(config, indent=2) + "\n")
        return str(path)

    def register(self, group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
        """Serve one more type."""
        return self.registry.register(ResourceType(group, version, plural, kind, namespaced))

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
    ) -> Fault:
        """Order a fault.

        :param path: a prefix of the request's path.
        :param when: a further condition on the request.
        :param count: how often; None: until :meth:`Fault.stop`.
        :param after: how many requests, or events of a stream, pass unharmed before.
        """
        fault = Fault(action, path=path, verb=verb, when=when, count=count, after=after)
        self.faults.add(fault)
        self._wake()
        return fault

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

    def _wake(self) -> None:
        with self.store.changed:
            self.store.changed.notify_all()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
