# SPDX-License-Identifier: Apache-2.0
"""The server as tests hold it: objects in, faults in, counts out::

    with KubernetesServer() as server:
        server.create(deployment("vdu1", replicas=3))
        server.cluster.settle()
        reflector = ...(server.kubeconfig(tmp_path / "kubeconfig"))
        server.requests.wait_for_watches(1, "pods")
        server.fail(error_event(410), path="/api/v1/pods", after=2)

It can be stopped and started again on the same port with its objects, as an API server that dies.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Self

from watcher_sync.testing.http.listener import Listener
from watcher_sync.testing.kubernetes.api import GZIP_FROM_BYTES, KubernetesApi, WatchList
from watcher_sync.testing.kubernetes.cluster import Cluster
from watcher_sync.testing.kubernetes.http import ApiHandler
from watcher_sync.testing.kubernetes.store import Saved


class KubernetesServer(KubernetesApi):
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
        gzip_from: int = GZIP_FROM_BYTES,
        token: str | None = None,
    ) -> None:
        """
        :param port: 0 takes any that is free.
        :param seed: of uids and generated names.
        :param history_limit: how many writes back a watch may begin.
        :param watch_list: how the server treats sendInitialEvents. With ``on``, it sends them. With ``refused``, it
            answers 422, as a server does whose feature is disabled. With ``ignored``, it ignores the parameter, as an
            older server does. With ``unavailable``, the stream begins and is one error, as from a server whose etcd
            cannot report progress.
        :param bookmark_interval: seconds between bookmarks.
        :param watch_timeout: seconds after which a watch ends that named no timeoutSeconds.
        :param gzip_from: bytes from which bodies are compressed.
        :param token: the bearer token that is asked for; None lets everybody in.
        """
        super().__init__(
            seed=seed,
            history_limit=history_limit,
            watch_list=watch_list,
            bookmark_interval=bookmark_interval,
            watch_timeout=watch_timeout,
            gzip_from=gzip_from,
            token=token,
        )
        self.cluster = Cluster(self)
        self._listener = Listener(
            functools.partial(ApiHandler, self), name="kubernetes-api-server", host=host, port=port, on_stop=self.wake
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; on the same port as before, if there was one. Nothing happens when it does already.

        :raises OSError: when the port is taken.
        """
        self._listener.start()

    def stop(self) -> None:
        """Cut all connections and listen no more. The objects stay."""
        self._listener.stop()

    def restore(self, saved: Saved) -> None:
        """Go back to what ``store.save()`` returned: etcd is restored from a snapshot. Cuts all connections."""
        self.stop()
        self.store.restore(saved)
        self.expire_pages()
        self.start()

    @property
    def url(self) -> str:
        return self._listener.url

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
