# SPDX-License-Identifier: Apache-2.0
"""A running Ironic: API and conductor, with fake hardware, without Keystone.

The database is on the MariaDB of the functional tests, under a name of this cloud's own. The message bus is a RabbitMQ
node of this cloud's own, because the queues of Ironic's calls have fixed names. All ports are free ones.
:meth:`Cloud.stop` removes everything. One thread.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

import requests
import sqlalchemy

from tests.real_ironic.api import Api
from tests.real_nova.installation import Programs, ensure_programs
from tests.real_nova.processes import Processes, wait_for
from tests.services.ensure import url_of
from tests.services.servers import RabbitMQ, free_port
from tests.waiting import deadline

EXCHANGE = "ironic"
TOPIC = "ironic_versioned_notifications"
HOST = "ironic-1"
"""The name of the machine, in the publishers' names."""

_HOSTED = Path(__file__).with_name("hosted")
_START_SECONDS = 60.0
_FAKE = ["bios", "boot", "console", "deploy", "firmware", "inspect", "management", "power", "raid", "rescue", "vendor"]


def programs() -> Programs:
    """Ironic, installed where it is missing."""
    return ensure_programs("real-ironic-cloud", Path(__file__).with_name("requirements.txt"))


class Cloud:
    """A running Ironic.

    :param programs: the installed Ironic.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="watcher-sync-real-ironic-"))
        self._server = sqlalchemy.make_url(url_of("mariadb"))
        self._database = f"watcher_sync_{secrets.token_hex(6)}_ironic"
        self._broker = RabbitMQ()
        self._port = free_port()
        self._processes = Processes(self._path("log"))

    @property
    def endpoint(self) -> str:
        """The root of the API."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def transport_url(self) -> str:
        """The message bus on which Ironic publishes its notifications."""
        return self._broker.url

    @property
    def login(self) -> dict[str, str]:
        """keystoneauth's options of the administrator."""
        return {"auth_type": "none", "endpoint": f"{self.endpoint}/v1"}

    def api(self) -> Api:
        """A new client of the API."""
        return Api(self.endpoint)

    # Its life

    def start(self) -> Self:
        """Create the database, start everything, and wait until the conductor is up.

        :raises CloudBroken: a part did not come up.
        """
        self._broker.create()
        self._sql(f"CREATE DATABASE {self._database} CHARACTER SET utf8mb4")
        config = self._folder / "ironic.conf"
        config.write_text(self._settings())
        file = ("--config-file", str(config))
        self._processes.run(self._programs.path("ironic-dbsync"), *file, "create_schema")
        environment = {"FAKE_HARDWARE": str(self._path("hardware"))}
        script = str(_HOSTED / "conductor.py")
        self._processes.start("conductor", self._programs.python, script, *file, environment=environment)
        self._processes.start("api", self._programs.path("ironic-api"), *file)
        wait_for(self._is_up, _START_SECONDS, "the driver of a conductor")
        return self

    def stop(self) -> None:
        """End all processes, and remove database, message bus and files."""
        self._processes.stop()
        self._broker.remove()
        self._sql(f"DROP DATABASE IF EXISTS {self._database}")
        shutil.rmtree(self._folder, ignore_errors=True)

    # Its hardware

    def switch(self, node: str, state: str) -> None:
        """The machine's power changes without Ironic: ``power on`` or ``power off``."""
        (self._path("hardware") / f"{node}.power").write_text(state)

    def fail(self, node: str, *actions: str) -> None:
        """These actions fail from now on, and no others: deploy, clean, get_power_state, set_power_state."""
        (self._path("hardware") / f"{node}.fails").write_text("\n".join(actions))

    # Its steps

    def _is_up(self) -> bool:
        for name in ("conductor", "api"):
            self._processes.check(name)
        with suppress(requests.ConnectionError, requests.Timeout):
            answer = requests.get(f"{self.endpoint}/v1/drivers", timeout=deadline(5))
            return answer.ok and bool(answer.json()["drivers"])
        return False

    def _settings(self) -> str:
        url = self._server.set(database=self._database).render_as_string(hide_password=False)
        sections: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "auth_strategy": "noauth",
                "transport_url": self.transport_url,
                "rpc_transport": "oslo",
                "host": HOST,
                "state_path": self._path("state"),
                "notification_level": "debug",
                "enabled_hardware_types": "fake-hardware",
                **{f"enabled_{kind}_interfaces": "fake" for kind in _FAKE},
                "enabled_network_interfaces": "noop",
                "enabled_storage_interfaces": "noop",
            },
            "oslo_messaging_notifications": {"driver": "messagingv2"},
            "database": {"connection": url},
            "api": {"host_ip": "127.0.0.1", "port": self._port, "api_workers": 1},
            "dhcp": {"dhcp_provider": "none"},
            "conductor": {
                "automated_clean": True,
                "sync_power_state_interval": 2,
                "force_power_state_during_sync": False,
                "power_state_sync_max_retries": 1,
                "power_failure_recovery_interval": 2,
                "node_locked_retry_attempts": 20,
            },
        }
        lines = [
            line
            for section, options in sections.items()
            for line in (f"[{section}]", *(f"{name} = {value}" for name, value in options.items()))
        ]
        return "\n".join([*lines, ""])

    def _path(self, name: str) -> Path:
        path = self._folder / name
        path.mkdir(exist_ok=True)
        return path

    def _sql(self, statement: str) -> None:
        engine = sqlalchemy.create_engine(self._server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
