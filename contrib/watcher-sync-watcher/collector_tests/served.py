# SPDX-License-Identifier: Apache-2.0
"""An API of watcher_sync over HTTP, with a small cloud behind it."""

from __future__ import annotations

import datetime
import itertools
import socketserver
import threading
import uuid
import wsgiref.simple_server

from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import by_facet, telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.model.changes import Upsert
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
GROUPS = {"ssd": {"number": 1, "hosts": ["host-0", "host-1"]}, "gpu": {"number": 2, "hosts": ["host-3"]}}


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


def host_uuid(number: int) -> str:
    """The uuid of host-N."""
    return str(uuid.UUID(int=number + 1))


def server_uuid(number: int) -> str:
    """The uuid of a server."""
    return str(uuid.UUID(int=0xABC000 + number))


class Site:
    """A store with a small cloud, its API over HTTP, and the requests that it got."""

    def __init__(self, folder) -> None:
        self.conf = cfg.ConfigOpts()
        opts.register_opts(self.conf)
        opts.register_database(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.conf.set_override("connection", f"sqlite:///{folder / 'ws.sqlite'}", group="database")
        self.conf.set_override("auth_strategy", "noauth", group="api")
        self.store = Store(database.open_database(self.conf), builtin_kinds())
        migrate(self.store)
        self.cycle = CommitCycle(self.store, self.store.load(), telling(self.store.kinds))
        self.requests: list[str] = []
        self.broken = 0
        """So many requests get 503."""
        self._numbers = itertools.count(1)
        application = make_application(self.conf, self.store)

        def counted(environ, start_response):
            self.requests.append(environ["PATH_INFO"])
            if self.broken:
                self.broken -= 1
                start_response("503 Service Unavailable", [("Content-Type", "application/problem+json")])
                return [b"{}"]
            return application(environ, start_response)

        self._server = wsgiref.simple_server.make_server("127.0.0.1", 0, counted, _Server, _Quiet)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self.store.close()
        self.store.database.dispose()

    def commit(self, *changes) -> None:
        """Write these changes."""
        before = self.cycle.model.generation
        self.cycle.run(Batch(events=[told(next(self._numbers), *changes)]))
        assert self.cycle.model.generation > before

    def version(self) -> str:
        """A version above all before."""
        return f"{next(self._numbers):09d}"

    def host(self, number: int, **values):
        """A host with capacity."""
        defaults = {
            "status": "enabled", "service_zone": "az1", "liveness": "up", "uuid": host_uuid(number),
            "hypervisor_hostname": f"host-{number}.example.com", "vcpus": 16, "reserved_vcpus": 2, "vcpu_ratio": 4.0,
            "memory_mb": 65536, "reserved_memory_mb": 512, "memory_ratio": 1.5, "disk_gb": 500, "reserved_disk_gb": 10,
            "disk_ratio": 1.0,
        }  # fmt: skip
        facets = by_facet("compute_node", **defaults | values)
        return Upsert("compute_node", f"host-{number}", self.version(), facets)

    def server(self, number: int, host: str | None, **values):
        """A server of a flavor."""
        defaults = {
            "name": f"server-{number}", "state": "active", "vcpus": 2, "memory_mb": 2048, "disk_gb": 10,
            "project_id": f"{number % 3:032x}", "metadata": {"optimize": "true"}, "extra_specs": {"hw:numa_nodes": "1"},
            "created_at": NOON, "locked": False, "host": host, "node": None if host is None else f"{host}.example.com",
        }  # fmt: skip
        return Upsert("instance", server_uuid(number), self.version(), by_facet("instance", **defaults | values))

    def fill(self) -> None:
        """Four hosts in two zones and two aggregates, with twelve servers; host-2 is disabled, host-3 down."""
        self.commit(
            self.host(0),
            self.host(1),
            self.host(2, service_zone="az2", status="disabled", disabled_reason="fan"),
            self.host(3, service_zone="az2", liveness="down"),
            *(
                Upsert("aggregate", f"uuid-{name}", self.version(), by_facet("aggregate", name=name, **values))
                for name, values in GROUPS.items()
            ),
            *(self.server(n, f"host-{n % 4}", locked=n == 5, pinned_zone="az1" if n == 1 else None) for n in range(12)),
        )  # fmt: skip
