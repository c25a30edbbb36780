# SPDX-License-Identifier: Apache-2.0
"""A cloud of real OpenStack code: Keystone and Cinder with two backends.

``cinder-volume`` has the driver of :mod:`tests.real_cinder.hosted.shelves`. The databases are on the MariaDB of the
functional tests, under names of this cloud's own. The message bus is a RabbitMQ node of this cloud's own, because the
queues of Cinder's calls have fixed names. All ports are free ones. :meth:`Cloud.stop` removes everything.

One thread.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import sqlalchemy

from tests.real_cinder.admin import CinderAdmin
from tests.real_cinder.settings import BACKENDS, CATALOG, HOST, SERVICES, write_pools, write_settings
from tests.real_nova import seed
from tests.real_nova.bringup import START_SECONDS, bootstrap_identity, create_databases, drop_databases, serve
from tests.real_nova.installation import Programs, ensure_programs
from tests.real_nova.processes import Processes, wait_for
from tests.real_nova.settings import PASSWORD, Site
from tests.services.ensure import url_of
from tests.services.servers import RabbitMQ, free_port

EXCHANGE = "openstack"
TOPIC = "notifications"

_DATABASES = ("keystone", "cinder")
_HOSTED = Path(__file__).with_name("hosted")


def programs() -> Programs:
    """Keystone and Cinder, installed where they are missing."""
    return ensure_programs("real-cinder-cloud", Path(__file__).with_name("requirements.txt"))


class Cloud:
    """A running cloud.

    :param programs: the installed OpenStack.
    """

    def __init__(self, programs: Programs) -> None:
        self._server = sqlalchemy.make_url(url_of("mariadb"))
        self._databases = {name: f"watcher_sync_{secrets.token_hex(6)}_{name}" for name in _DATABASES}
        self._broker = RabbitMQ()
        self.site = Site(
            folder=Path(tempfile.mkdtemp(prefix="watcher-sync-real-cinder-")),
            programs=programs,
            ports={name: free_port() for name in SERVICES},
            databases={
                name: self._server.set(database=database).render_as_string(hide_password=False)
                for name, database in self._databases.items()
            },
            transport_url=self._broker.url,
        )
        self._processes = Processes(self.site.path("log"))
        self.types: dict[str, str] = {}
        """Name -> id of the volume types. ``fast`` and ``slow`` ask for the backend of this name, ``any`` for none."""

    @property
    def transport_url(self) -> str:
        """The message bus on which Cinder publishes its notifications."""
        return self.site.transport_url

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

    def admin(self, user: str = "admin", project: str = "admin") -> CinderAdmin:
        """A new client of the APIs. The user ``cinder`` of the project ``service`` may act as Nova does."""
        return CinderAdmin({name: self.site.url(name) for name in SERVICES}, user, PASSWORD, project)

    # Its life

    def start(self) -> Self:
        """Create the databases, start everything, and wait until the scheduler knows the pools of all backends.

        :raises CloudBroken: a part did not come up.
        """
        create_databases(self._server, self._databases.values())
        write_settings(self.site)
        with ThreadPoolExecutor(3) as pool:
            steps = [pool.submit(self._broker.create), pool.submit(bootstrap_identity, self._processes, self.site)]
            steps.append(pool.submit(self._processes.run, self._program("cinder-manage"), *self._files(), "db", "sync"))
            for step in steps:
                step.result()
        self._serve("keystone", "keystone.wsgi.api:application", OS_KEYSTONE_CONFIG_FILES=self.site.config("keystone"))
        admin = self.admin()
        seed.identity(admin, self.site, "cinder", CATALOG)
        self._processes.start("scheduler", self._program("cinder-scheduler"), *self._files())
        self._serve("cinder", "cinder.wsgi.api:application", HOME=self.site.path("home"))
        self.start_volume()
        self.types = {name: admin.volume_type(name, {"volume_backend_name": name}) for name in BACKENDS}
        self.types["any"] = admin.volume_type("any", {})
        self.await_pools(sum(map(len, BACKENDS.values())))
        return self

    def start_volume(self) -> None:
        """Start ``cinder-volume`` with all backends, and wait until they are up."""
        command = (self._program("cinder-volume"), *self._files("volume"))
        self._processes.start(HOST, *command, environment={"PYTHONPATH": str(_HOSTED)})
        admin = self.admin()

        def up() -> bool:
            self._processes.check(HOST)
            services = admin.get("cinder", "/v3/os-services?binary=cinder-volume")["services"]
            return sum(service["state"] == "up" for service in services) == len(BACKENDS)

        wait_for(up, START_SECONDS, "all backends that are up")

    def kill_volume(self) -> None:
        """As if the host of ``cinder-volume`` lost power."""
        self._processes.kill(HOST)

    def await_pools(self, count: int) -> None:
        """Wait until the scheduler knows as many pools."""
        admin = self.admin()
        wait_for(lambda: len(admin.pools_of_scheduler()) == count, START_SECONDS, f"{count} pools")

    def set_pools(self, backend: str, pools: Mapping[str, Mapping[str, object]]) -> None:
        """What the pools of a backend report from now on, every three seconds."""
        write_pools(self.site, backend, pools)

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Stop the scheduler for a while: no volume gets a host."""
        self._processes.signal("scheduler", signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes.signal("scheduler", signal.SIGCONT)

    def stop(self) -> None:
        """End all processes, and remove databases, message bus and files."""
        self._processes.stop()
        self._broker.remove()
        drop_databases(self._server, self._databases.values())
        shutil.rmtree(self.site.folder, ignore_errors=True)

    # Its steps

    def _program(self, name: str) -> str:
        return self.site.programs.path(name)

    def _files(self, *configs: str) -> tuple[str, ...]:
        files = [self.site.config(name) for name in ("cinder", *configs)]
        return tuple(argument for file in files for argument in ("--config-file", str(file)))

    def _serve(self, name: str, application: str, **environment: Any) -> None:
        variables = {variable: str(value) for variable, value in environment.items()}
        serve(self._processes, self.site, name, application, threads=4, environment=variables)
