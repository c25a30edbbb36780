# SPDX-License-Identifier: Apache-2.0
"""A cloud of real OpenStack code: Keystone, Placement, Glance and Nova with four computes.

Nova is complete: two APIs, scheduler, and two cells with a conductor each. The first cell has three ``nova-compute``
with the virt driver of :mod:`tests.real_nova.hosted.guests`, the second one. Networks come from a stub. The databases
are on the MariaDB of the functional tests, under names of this cloud's own. The message bus of each cell is a RabbitMQ
node of this cloud's own, because the queues of Nova's calls have fixed names. All ports are free ones.
:meth:`Cloud.stop` removes everything.

One thread.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import sqlalchemy

from tests.real_nova import seed
from tests.real_nova.admin import Admin
from tests.real_nova.bringup import START_SECONDS, bootstrap_identity, create_databases, drop_databases, serve
from tests.real_nova.installation import Programs
from tests.real_nova.processes import CloudBroken, Processes, wait_for
from tests.real_nova.settings import FAR, HOSTS, PASSWORD, SERVICES, Site, write_compute, write_settings
from tests.services.ensure import url_of
from tests.services.servers import RabbitMQ, free_port

EXCHANGE = "nova"
TOPIC = "versioned_notifications"

_DATABASES = ("keystone", "placement", "glance", "nova_api", "nova_cell0", "nova", "nova_cell2")
_HOSTED = Path(__file__).with_name("hosted")
_APPLICATIONS = {
    # service: threads and WSGI application
    "keystone": (4, "keystone.wsgi.api:application"),
    "placement": (6, "placement.wsgi.api:application"),
    "glance": (3, "glance.wsgi.api:application"),
    "network": (3, "network:application"),
    "nova": (8, "nova.wsgi.osapi_compute:application"),
    "nova-soft": (3, "nova.wsgi.osapi_compute:application"),
}


class Cloud:
    """A running cloud.

    :param programs: the installed OpenStack.
    """

    def __init__(self, programs: Programs) -> None:
        folder = Path(tempfile.mkdtemp(prefix="watcher-sync-real-nova-"))
        server = sqlalchemy.make_url(url_of("mariadb"))
        self._databases = {name: f"watcher_sync_{secrets.token_hex(6)}_{name}" for name in _DATABASES}
        self._server = server
        self._brokers = (RabbitMQ(), RabbitMQ())
        self.site = Site(
            folder=folder,
            programs=programs,
            ports={name: free_port() for name in SERVICES},
            databases={
                name: server.set(database=database).render_as_string(hide_password=False)
                for name, database in self._databases.items()
            },
            transport_url=self._brokers[0].url,
            far_transport_url=self._brokers[1].url,
        )
        self._processes = Processes(self.site.path("log"))
        self.seeded: seed.Seeded | None = None

    @property
    def transport_urls(self) -> Sequence[str]:
        """The message buses on which Nova publishes its notifications, one a cell."""
        return (self.site.transport_url, self.site.far_transport_url)

    @property
    def login(self) -> dict[str, str]:
        """keystoneauth's options of the administrator."""
        return {
            "auth_type": "password",
            "auth_url": f"{self.site.url('keystone')}/v3",
            "username": "admin",
            "password": PASSWORD,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "region_name": "RegionOne",
        }

    @property
    def openrc(self) -> dict[str, str]:
        """The environment of OpenStack's command-line clients."""
        options = {name: value for name, value in self.login.items() if name != "auth_type"}
        return {"OS_IDENTITY_API_VERSION": "3", **{f"OS_{name.upper()}": value for name, value in options.items()}}

    def admin(self, user: str = "admin", project: str = "admin") -> Admin:
        """A new client of the APIs."""
        return Admin({name: self.site.url(name) for name in SERVICES}, user, PASSWORD, project)

    # Its life

    def start(self) -> Self:
        """Create the databases, start everything, and wait until the computes are up.

        :raises CloudBroken: a part did not come up.
        """
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda broker: broker.create(), self._brokers))
        create_databases(self._server, self._databases.values())
        write_settings(self.site)
        with ThreadPoolExecutor(3) as pool:
            for step in [
                pool.submit(prepare) for prepare in (self._prepare_identity, self._prepare_rest, self._sync_nova)
            ]:
                step.result()
        self._serve("keystone")
        admin = self.admin()
        seed.identity(admin, self.site)
        for name in ("placement", "glance", "network"):
            self._serve(name)
        for name in ("conductor", "scheduler"):
            self._start_nova(f"nova-{name}", name)
        self._start_nova("nova-conductor", "conductor", name=f"conductor-{FAR}", more=("cell2",))
        for name in ("nova", "nova-soft"):
            self._serve(name)
        self.seeded = seed.flavors_and_images(admin)
        for host in HOSTS:
            self.start_compute(host)
        self._await_computes(admin)
        return self

    def start_compute(self, host: str, *, formerly: str | None = None) -> None:
        """Start the ``nova-compute`` of a host, and return.

        :param formerly: the name that the host had before.
        """
        write_compute(self.site, host, formerly=formerly)
        script = str(_HOSTED / "compute.py")
        cell = ("cell2",) if host == FAR else ()
        self._processes.start(host, self.site.programs.python, script, *self._nova_files(*cell, host))

    def has_ended(self, host: str) -> bool:
        """Whether the ``nova-compute`` of a host has ended by itself."""
        return self._processes.has_ended(host)

    def forget_node(self, host: str) -> None:
        """Let the ``nova-compute`` of a host make a new node when it starts."""
        (self.site.path("state", host) / "compute_id").unlink()

    def discover_hosts(self) -> None:
        """Map new computes to their cell."""
        self._manage("nova", "--config-file", str(self.site.config("nova")), "cell_v2", "discover_hosts")

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Stop the scheduler for a while: no server gets a host."""
        self._processes.signal("nova-scheduler", signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes.signal("nova-scheduler", signal.SIGCONT)

    def kill_compute(self, host: str) -> None:
        """As if the host lost power."""
        self._processes.kill(host)

    def stop(self) -> None:
        """End all processes, and remove databases, message bus and files."""
        self._processes.stop()
        for broker in self._brokers:
            broker.remove()
        drop_databases(self._server, self._databases.values())
        shutil.rmtree(self.site.folder, ignore_errors=True)

    # Its steps

    def _manage(self, name: str, *arguments: str) -> None:
        self._processes.run(self.site.programs.path(f"{name}-manage"), *arguments)

    def _prepare_identity(self) -> None:
        bootstrap_identity(self._processes, self.site)

    def _prepare_rest(self) -> None:
        self._manage("placement", "--config-file", str(self.site.config("placement")), "db", "sync")
        self._manage("glance", "--config-file", str(self.site.config("glance-api")), "db_sync")

    def _sync_nova(self) -> None:
        config = ("--config-file", str(self.site.config("nova")))
        self._manage("nova", *config, "api_db", "sync")
        cell0 = f"--database_connection={self.site.databases['nova_cell0']}"
        self._manage("nova", *config, "cell_v2", "map_cell0", cell0)
        self._manage("nova", *config, "cell_v2", "create_cell", "--name=cell1")
        self._manage("nova", *config, "db", "sync")
        far = ("--config-file", str(self.site.config("cell2")))
        self._manage("nova", *config, *far, "cell_v2", "create_cell", "--name=cell2")
        self._manage("nova", *config, *far, "db", "sync", "--local_cell")

    def _serve(self, name: str) -> None:
        threads, application = _APPLICATIONS[name]
        serve(self._processes, self.site, name, application, threads=threads, environment=self._variables(name))

    def _variables(self, name: str) -> dict[str, str]:
        """How the WSGI application of a service finds its configuration."""
        folder = str(self.site.path("etc"))
        if name == "keystone":
            return {"OS_KEYSTONE_CONFIG_FILES": str(self.site.config("keystone"))}
        if name == "placement":
            return {"OS_PLACEMENT_CONFIG_DIR": folder}
        if name == "glance":
            return {"OS_GLANCE_CONFIG_DIR": folder, "OS_GLANCE_CONFIG_FILES": "glance-api.conf"}
        own = {"nova": "nova-api.conf", "nova-soft": "nova-api-soft.conf"}.get(name)
        files = f"api-paste.ini;nova.conf;{own}"
        return {"OS_NOVA_CONFIG_DIR": folder, "OS_NOVA_CONFIG_FILES": files} if own else {}

    def _nova_files(self, *configs: str) -> tuple[str, ...]:
        files = [self.site.config(name) for name in ("nova", *configs)]
        return tuple(argument for file in files for argument in ("--config-file", str(file)))

    def _start_nova(self, program: str, config: str, *, name: str | None = None, more: Sequence[str] = ()) -> None:
        command = (self.site.programs.path(program), *self._nova_files(*more, config))
        self._processes.start(name or program, *command)

    def _await_computes(self, admin: Admin) -> None:
        """Map the computes to their cells, and wait until Placement has what they offer."""

        def all_up() -> bool:
            for host in HOSTS:
                self._processes.check(host)
            services = admin.get("nova", "/v2.1/os-services?binary=nova-compute")["services"]
            return sum(service["state"] == "up" for service in services) == len(HOSTS)

        def all_offered() -> bool:
            return len(admin.get("placement", "/resource_providers")["resource_providers"]) == len(HOSTS)

        wait_for(all_up, START_SECONDS, "all computes that are up")
        wait_for(all_offered, START_SECONDS, "all resource providers")
        self.discover_hosts()
        if len(list(admin.get("nova", "/v2.1/os-hypervisors", "2.87")["hypervisors"])) != len(HOSTS):
            raise CloudBroken("Nova lists other hypervisors than those of the computes")
