# SPDX-License-Identifier: Apache-2.0
"""A real Keystone for one test: SQLite, Fernet, and its WSGI application under gunicorn, all in one folder.

::

    with running_keystone(tmp_path) as keystone:
        project = keystone.project("acme")
        token = keystone.token(keystone.user("anna", project, "member"), project)

The server can be killed and started again with the same data and the same address.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pexpect

from tests.functional.security import documented
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until

BIN = Path(sys.executable).parent
ADMIN_PASSWORD = "admin-secret"
PASSWORD = "PASSWORD"
"""Of the users of the install guide, which has it in its configuration."""
DOCUMENTED_URL = "https://watcher-sync.example.com"
"""The root of the API in the install guide."""

_CONF = """\
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[token]
provider = fernet
expiration = {expiration}
[identity]
password_hash_rounds = 4
[cache]
enabled = false
[security_compliance]
"""


@dataclass(frozen=True)
class User:
    """A user and its password."""

    id: str
    name: str
    password: str


class Keystone:
    """The server, and an administrator's requests to it."""

    def __init__(self, folder: Path, expiration: int) -> None:
        """:param expiration: the life of a token in seconds."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v3"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(base_url=self.url, timeout=deadline(30))
        self._roles: dict[str, str] = {}
        (folder / "keystone.conf").write_text(_CONF.format(folder=folder, expiration=expiration))
        (folder / "gunicorn.py").write_text(
            f'wsgi_app = "keystone.wsgi.api:application"\nbind = "127.0.0.1:{self.port}"\n'
            # With more threads, all requests of a burst end late, and simultaneous logins find SQLite locked.
            'worker_class = "gthread"\nthreads = 1\ncontrol_socket_disable = True\n'
        )

    def install(self) -> None:
        """Make the schema, the keys, the first user, and the project ``service`` with its role."""
        owner = [f"--keystone-user={os.getuid()}", f"--keystone-group={os.getgid()}"]
        for command in (
            ["db_sync"],
            ["fernet_setup", *owner],
            ["credential_setup", *owner],
            ["bootstrap", "--bootstrap-password", ADMIN_PASSWORD, "--bootstrap-region-id", "RegionOne"]
            + [f"--bootstrap-{name}-url={self.url}" for name in ("public", "internal", "admin")],
        ):
            done = subprocess.run(
                [BIN / "keystone-manage", "--config-file", self._folder / "keystone.conf", *command],
                capture_output=True, text=True, timeout=deadline(120), check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        # Keystone parses the arguments of its process, so gunicorn takes its own from the environment.
        environment = {
            **os.environ,
            "GUNICORN_CMD_ARGS": f"--config {self._folder / 'gunicorn.py'}",
            "OS_KEYSTONE_CONFIG_FILES": str(self._folder / "keystone.conf"),
            "OS_KEYSTONE_CONFIG_DIR": str(self._folder),
        }
        with (self._folder / "keystone.log").open("ab") as log:
            self._process = subprocess.Popen(
                [BIN / "gunicorn"], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        wait_until(self._answers, 60, "Keystone")

    def kill(self) -> None:
        """End all processes of the server at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def environment(self) -> dict[str, str]:
        """The variables with which OpenStack clients are the administrator."""
        return {
            "OS_AUTH_URL": self.url, "OS_USERNAME": "admin", "OS_PASSWORD": ADMIN_PASSWORD,
            "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }  # fmt: skip

    def clouds(self) -> dict[str, Any]:
        """What ``clouds.yaml`` has for the cloud ``admin``, with which OpenStack clients are the administrator."""
        login = {name[3:].lower(): value for name, value in self.environment().items()}
        version = login.pop("identity_api_version")
        return {"clouds": {"admin": {"auth": login, "identity_api_version": version}}}

    def configuration(self) -> str:
        """The sections of the install guide, for this Keystone."""
        return configuration(self.url)

    def register(self, url: str = DOCUMENTED_URL) -> None:
        """Register the service as the install guide does.

        :param url: the root of the API, for the one of the guide.
        """
        register(self.environment(), url)

    def project(self, name: str) -> str:
        """Make a project; returns its id."""
        return str(self._post("/projects", "project", name=name, domain_id="default")["id"])

    def user(self, name: str, project_id: str | None = None, *roles: str) -> User:
        """Make a user with roles in a project."""
        password = f"{name}-secret"
        made = self._post("/users", "user", name=name, password=password, domain_id="default")
        user = User(made["id"], name, password)
        for role in roles:
            assert project_id is not None
            self.grant(user, role, project_id)
        return user

    def grant(self, user: User, role: str, project_id: str | None) -> None:
        """Give a user a role.

        :param project_id: None: in the system.
        """
        where = f"/projects/{project_id}" if project_id is not None else "/system"
        path = f"{where}/users/{user.id}/roles/{self.role(role)}"
        self._client.put(path, headers=self._admin()).raise_for_status()

    def role(self, name: str) -> str:
        """The id of a role, which is made where it is missing."""
        if name not in self._roles:
            found = self._client.get("/roles", params={"name": name}, headers=self._admin()).json()["roles"]
            self._roles[name] = found[0]["id"] if found else self._post("/roles", "role", name=name)["id"]
        return self._roles[name]

    def token(self, user: User, project_id: str | None) -> str:
        """A new token of a user.

        :param project_id: the scope; None: the system.
        """
        scope: dict[str, Any] = {"system": {"all": True}}
        if project_id is not None:
            scope = {"project": {"id": project_id}}
        return self._token({"id": user.id, "password": user.password}, scope)

    def application_credential(self, user: User, project_id: str) -> tuple[str, str]:
        """Make an application credential of a user in a project; returns its id and its secret."""
        headers = {"X-Auth-Token": self.token(user, project_id)}
        path = f"/users/{user.id}/application_credentials"
        answer = self._client.post(path, json={"application_credential": {"name": "made"}}, headers=headers)
        answer.raise_for_status()
        made = answer.json()["application_credential"]
        return str(made["id"]), str(made["secret"])

    def enable_service(self, name: str, is_enabled: bool) -> None:
        """Add a service to the catalog, or remove it."""
        (found,) = self._client.get("/services", params={"name": name}, headers=self._admin()).json()["services"]
        body = {"service": {"enabled": is_enabled}}
        self._client.patch(f"/services/{found['id']}", json=body, headers=self._admin()).raise_for_status()

    def change_password(self, user: User, password: str) -> None:
        """Give a user another password, which revokes all its tokens. Its application credentials stay."""
        answer = self._client.patch(f"/users/{user.id}", json={"user": {"password": password}}, headers=self._admin())
        answer.raise_for_status()

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        headers = {**self._admin(), "X-Subject-Token": token}
        self._client.delete("/auth/tokens", headers=headers).raise_for_status()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "keystone.log").read_text()[-2000:]
        try:
            return self._client.get(self.url).status_code == 200
        except httpx.TransportError:
            return False

    def _admin(self) -> dict[str, str]:
        user = {"name": "admin", "domain": {"id": "default"}, "password": ADMIN_PASSWORD}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        return {"X-Auth-Token": self._token(user, scope)}

    def _token(self, user: dict[str, Any], scope: dict[str, Any]) -> str:
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = self._client.post("/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def _post(self, path: str, what: str, **values: Any) -> dict[str, Any]:
        answer = self._client.post(path, json={what: values}, headers=self._admin())
        answer.raise_for_status()
        made: dict[str, Any] = answer.json()[what]
        return made


def configuration(url: str) -> str:
    """The sections of the install guide. A loaded machine has more time for an answer.

    :param url: of Keystone, for the one of the guide.
    """
    guide = documented.configuration("admin/install.rst", "keystone_authtoken")
    assert "https://keystone.example.com/v3" in guide
    text = guide.replace("https://keystone.example.com/v3", url)
    return f"{text}http_connect_timeout = {deadline(30):.0f}\n"


def register(environment: Mapping[str, str], url: str) -> None:
    """Run the commands of the install guide that register the service.

    :param environment: the variables with which OpenStack clients are the administrator.
    :param url: the root of the API, for the one of the guide.
    """
    commands = documented.commands("admin/install.rst", "openstack")
    registering = [c for c in commands if c[1] in ("user", "role", "service", "endpoint")]
    assert len(registering) == 7
    assert [DOCUMENTED_URL in command for command in registering].count(True) == 2
    for command in registering:
        words = [url if word == DOCUMENTED_URL else word for word in command[1:]]
        printed, status = pexpect.run(
            shlex.join([str(BIN / "openstack"), *words]), env={**os.environ, **environment},
            events={"Password:": f"{PASSWORD}\n"}, timeout=round(deadline(60)), withexitstatus=True, encoding="utf-8",
        )  # fmt: skip
        assert status == 0, printed


@contextlib.contextmanager
def running_keystone(folder: Path, *, expiration: int = 3600) -> Iterator[Keystone]:
    """A Keystone in a folder of its own, with the project ``service`` and the usual roles.

    :param expiration: the life of a token in seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keystone = Keystone(folder, expiration)
    keystone.install()
    try:
        keystone.start()
        keystone.project("service")
        for name in ("service", "member", "reader"):
            keystone.role(name)
        yield keystone
    finally:
        keystone.kill()
