# SPDX-License-Identifier: Apache-2.0
"""An API of watcher_sync over HTTP, with a small cloud behind it."""

from __future__ import annotations

import datetime
import itertools
import socketserver
import threading
import uuid
import wsgiref.simple_server
from collections.abc import Callable

from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.model.changes import Upsert
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
GROUPS = {"ssd": {"number": 1, "hosts": ["host-0", "host-1"]}, "gpu": {"number": 2, "hosts": ["host-3"]}}

TYPES = {name: str(uuid.UUID(int=0x7E0 + number)) for number, name in enumerate(("fast", "secret", "slow"))}
CEPH, LVM = "stor-1@ceph", "stor-1@lvm"
FAST, SLOW = f"{CEPH}#fast", f"{LVM}#slow"


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


def volume_uuid(number: int) -> str:
    """The uuid of a volume."""
    return str(uuid.UUID(int=0xDEF000 + number))


def node_uuid(number: int) -> str:
    """The uuid of a node of Ironic."""
    return str(uuid.UUID(int=0xB0B000 + number))


class Site:
    """A store with a small cloud, its API over HTTP, and the requests that it got."""

    def __init__(self, folder) -> None:
        self.conf = cfg.ConfigOpts()
        opts.register_opts(self.conf)
        opts.register_database(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.conf.set_override("connection", f"sqlite:///{folder / 'ws.sqlite'}", group="database")
        self.conf.set_override("auth_strategy", "noauth", group="api")
        self.store = Store(database.open_database(self.conf), load_kinds())
        migrate(self.store)
        self.cycle = CommitCycle(self.store, self.store.load(), telling(self.store.kinds))
        self.requests: list[str] = []
        self.broken = 0
        """So many requests get 503."""
        self.before: Callable[[str], None] = lambda _: None
        """Called with the path and the query before a request is answered."""
        self._numbers = itertools.count(1)
        application = make_application(self.conf, self.store)

        def counted(environ, start_response):
            self.requests.append(environ["PATH_INFO"])
            self.before(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}")
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

    def entity(self, kind_name: str, entity_id: str, **values):
        """An entity; each value goes to the facet of its field."""
        kind = self.store.kinds[kind_name]
        facets: dict[str, dict[str, object]] = {kind.anchor: {}}
        for name, value in values.items():
            facets.setdefault(kind.fields[name].facet, {})[name] = value
        return Upsert(kind_name, entity_id, self.version(), facets)

    def host(self, number: int, **values):
        """A host with capacity."""
        defaults = {
            "status": "enabled", "service_zone": "az1", "liveness": "up", "uuid": host_uuid(number),
            "hypervisor_hostname": f"host-{number}.example.com", "vcpus": 16, "reserved_vcpus": 2, "vcpu_ratio": 4.0,
            "memory_mb": 65536, "reserved_memory_mb": 512, "memory_ratio": 1.5, "disk_gb": 500, "reserved_disk_gb": 10,
            "disk_ratio": 1.0,
        }  # fmt: skip
        return self.entity("compute_node", f"host-{number}", **defaults | values)

    def server(self, number: int, host: str | None, **values):
        """A server of a flavor."""
        defaults = {
            "name": f"server-{number}", "state": "active", "vcpus": 2, "memory_mb": 2048, "disk_gb": 10,
            "project_id": f"{number % 3:032x}", "metadata": {"optimize": "true"}, "extra_specs": {"hw:numa_nodes": "1"},
            "created_at": NOON, "locked": False, "host": host, "node": None if host is None else f"{host}.example.com",
        }  # fmt: skip
        return self.entity("instance", server_uuid(number), **defaults | values)

    def pool(self, name: str, **values):
        """A pool with capacity."""
        defaults = {
            "backend_id": name.split("#")[0], "name": name, "total_capacity_gb": 1000.0, "free_capacity_gb": 400.5,
            "provisioned_capacity_gb": 700.0, "allocated_capacity_gb": 600.0, "total_volumes": 3,
        }  # fmt: skip
        return self.entity("storage_pool", name, **defaults | values)

    def volume(self, number: int, pool: str | None, **values):
        """A volume of a type. The greater the number, the newer it is."""
        defaults = {
            "name": f"volume-{number}", "status": "available", "size_gb": 10 + number, "pool_id": pool,
            "project_id": f"{number % 3:032x}", "volume_type_id": TYPES["fast"], "bootable": False,
            "multiattach": False, "metadata": {"tier": "gold"},
            "created_at": NOON + datetime.timedelta(seconds=number),
        }  # fmt: skip
        return self.entity("volume", volume_uuid(number), **defaults | values)

    def bare(self, number: int, **values):
        """A node of Ironic."""
        defaults = {"power_state": "power on", "maintenance": False, "extra": {"compute_node_id": host_uuid(number)}}
        return self.entity("baremetal_node", node_uuid(number), **defaults | values)

    def fill(self) -> None:
        """Four hosts in two zones and two aggregates, with twelve servers; host-2 is disabled, host-3 down."""
        self.commit(
            self.host(0),
            self.host(1),
            self.host(2, service_zone="az2", status="disabled", disabled_reason="fan"),
            self.host(3, service_zone="az2", liveness="down"),
            *(
                self.entity("aggregate", f"uuid-{name}", name=name, **values)
                for name, values in GROUPS.items()
            ),
            *(self.server(n, f"host-{n % 4}", locked=n == 5, pinned_zone="az1" if n == 1 else None) for n in range(12)),
        )  # fmt: skip

    def fill_storage(self) -> None:
        """Two backends in two zones with a pool each, three types of which one is private, and eight volumes."""
        specs = {"fast": "ceph", "secret": "ceph", "slow": "lvm"}
        self.commit(
            self.entity("storage_backend", CEPH, status="enabled", state="up", availability_zone="az1"),
            self.entity("storage_backend", LVM, status="enabled", state="up", availability_zone="az2"),
            self.pool(FAST),
            self.pool(SLOW, total_volumes=None),
            *(
                self.entity(
                    "volume_type", TYPES[name], name=name, is_public=name != "secret",
                    extra_specs={"volume_backend_name": backend},
                )
                for name, backend in specs.items()
            ),
            *(self.volume(number, FAST if number % 2 else SLOW) for number in range(8)),
        )  # fmt: skip

    def fill_baremetal(self) -> None:
        """Three nodes: one in maintenance, one off, and one that names no host of Nova."""
        self.commit(
            self.bare(0, maintenance=True, maintenance_reason="fan"),
            self.bare(1, power_state="power off"),
            self.bare(2, extra={}),
        )
