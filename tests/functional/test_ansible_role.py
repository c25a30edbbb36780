# SPDX-License-Identifier: Apache-2.0
"""The Ansible role of ``contrib``: its example playbook, applied to this machine below a folder of the test.

PostgreSQL, RabbitMQ, Keystone and nginx are real. systemd does not run here, so the command lines of the units do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import sqlalchemy as sa
import trustme
from oslo_config import cfg

from tests.functional.executables import BIN
from tests.functional.security.keystone import Keystone, running_keystone
from tests.functional.security.serving import nginx_with
from tests.rabbitmq_publisher import Publisher
from tests.services.ensure import tool, url_of
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.services.servers import free_port
from tests.source_copy import ROOT, copy_source
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

CONTRIB = ROOT / "contrib" / "ansible-watcher-sync"
DATABASE = f"watcher_sync_{os.getpid()}"
VHOST = "nova/cell1"
MARK = f"mark{os.getpid()}"
"""In each password, and in nothing else."""
PASSWORDS = {name: f""""{name} {MARK}@:/%#w\\o'rd$1\\$2\"""" for name in ("database", "rabbitmq", "keystone", "nova")}
"""Of the accounts: with what URLs, SQL, the configuration and shells write in another way."""

# The first test of the machine includes the installation of Keystone and of the package.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(900)]


def run(*command: object, folder: Path, umask: int = -1, **environment: str) -> str:
    """:returns: what the command printed. :raises AssertionError: it failed; the text is what it printed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**os.environ, **environment}, umask=umask,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=deadline(400), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@contextlib.contextmanager
def seen_processes() -> Iterator[set[tuple[str, bytes]]]:
    """What other users and root see of the processes meanwhile: each command line and environment."""
    seen: set[tuple[str, bytes]] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):  # it has ended
                        seen.add((name, (process / name).read_bytes()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        is_over.set()
        watcher.join()


class Site:
    """This machine as the one host of an inventory, with all paths below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.port = free_port()
        self.environment = {
            "PATH": f"{BIN}:/usr/lib/rabbitmq/bin:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_REMOTE_TEMP": str(folder / "ansible" / "remote"),
        }  # fmt: skip
        (folder / "hosts").write_text(
            "[watcher_sync]\nlocalhost ansible_connection=local ansible_become=false "
            f"ansible_python_interpreter={sys.executable}\n"
        )
        self.variables: dict[str, Any] = {
            "watcher_sync_prefix": str(self.root),
            "watcher_sync_become": False,
            "watcher_sync_service_manager": "none",
            "watcher_sync_services": ["engine", "api", "outlet"],
            "watcher_sync_tls": False,
            "watcher_sync_url": f"https://localhost:{self.port}",
            "watcher_sync_api_port": free_port(),
            "watcher_sync_config": {},
            **{f"vault_{name}_password": password for name, password in PASSWORDS.items()},
            **{f"watcher_sync_{name}": str(folder / name) for name in ("ca", "certificate", "certificate_key")},
            **{f"watcher_sync_{name}": "localhost"
               for name in ("database_server", "rabbitmq_server", "keystone_client")},
        }  # fmt: skip

    def play(self, *options: str, **variables: Any) -> str:
        """Apply the playbook; returns what Ansible printed. :raises AssertionError: it failed."""
        file = self.folder / "variables.json"
        file.write_text(json.dumps({**self.variables, **variables}))
        return run(
            BIN / "ansible-playbook", "--inventory", "hosts", "--extra-vars", f"@{file}", *options,
            CONTRIB / "playbook.yml", folder=self.folder, umask=0o077, **self.environment,
        )  # fmt: skip

    def refused(self, *options: str, **variables: Any) -> str:
        """What Ansible prints when it refuses the variables."""
        with pytest.raises(AssertionError) as caught:
            self.play(*options, **variables)
        return str(caught.value)

    def secret(self, name: str, text: str) -> str:
        """Write a file that is for its owner alone; returns its path."""
        (path := self.folder / name).touch(0o600)
        path.write_text(text)
        return str(path)

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    @contextlib.contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command of an installed unit with its environment."""
        unit = re.findall(
            r"^(\w+)=(.*)$", self.read(f"etc/systemd/system/watcher-sync-{service}.service"), re.MULTILINE
        )
        environment = dict(value.split("=", 1) for name, value in unit if name == "Environment")
        (command,) = (shlex.split(value) for name, value in unit if name == "ExecStart")
        log = self.folder / f"{service}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                status = process.wait(deadline(60))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                raise
        assert (status, "Traceback" in log.read_text()) == (0, False), log.read_text()[-2000:]


def changed(printed: str) -> list[str]:
    """The tasks that changed something, of what Ansible printed."""
    tasks = re.split(r"^(?:TASK|RUNNING HANDLER) \[(?:watcher_sync : )?(.*)\] \*+$", printed, flags=re.MULTILINE)
    names = [name for name, text in zip(tasks[1::2], tasks[2::2], strict=True) if re.search("^changed:", text, re.M)]
    assert ("changed=0" in printed) == (names == []), printed
    return names


@pytest.fixture
def empty_site(tmp_path: Path) -> Site:
    return Site(tmp_path)


class Deployed(Site):
    """A site with its servers; the role was run in check mode, and then applied."""

    def __init__(self, folder: Path, keystone: Keystone, node: RabbitMQNode, server: sa.URL) -> None:
        super().__init__(folder)
        self.keystone, self.node = keystone, node
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        authority.cert_pem.write_to_path(folder / "ca")
        certificate.cert_chain_pems[0].write_to_path(folder / "certificate")
        certificate.private_key_pem.write_to_path(folder / "certificate_key")
        copy_source(folder / "source")
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder / "source"]
        run(*wheel, folder=folder)
        (package,) = folder.glob("watcher_sync-*.whl")
        self.environment |= {
            "ERL_EPMD_PORT": node._environment()["ERL_EPMD_PORT"], "RABBITMQ_NODENAME": node.name,
            "RABBITMQ_ERLANG_COOKIE": (node.home / ".erlang.cookie").read_text(),
        }  # fmt: skip
        self.variables |= {
            "watcher_sync_package": f"watcher-sync @ {package.as_uri()}",
            "watcher_sync_constraints": str(ROOT / "constraints.txt"),
            "watcher_sync_database_host": f"{server.host}:{server.port or 5432}",
            "watcher_sync_database_name": DATABASE,
            "watcher_sync_database_admin": {
                "PGHOST": server.host, "PGPORT": str(server.port or 5432),
                "PGUSER": server.username, "PGPASSFILE": self.secret("pgpass", f"*:*:*:*:{server.password or ''}"),
            },
            "watcher_sync_rabbitmq_hosts": [node.host],
            "watcher_sync_rabbitmq_vhost": VHOST,
            "watcher_sync_keystone_url": keystone.url,
            "watcher_sync_keystone_admin": {
                "OS_CLIENT_CONFIG_FILE": self.secret("clouds.yaml", json.dumps(keystone.clouds())), "OS_CLOUD": "admin",
            },
            "watcher_sync_config": {
                "engine": {"enabled_sources": ["nova"]},
                "reconcile_nova": {"enabled": False},
                "keystone_authtoken": {"http_connect_timeout": round(deadline(30))},
            },
        }  # fmt: skip
        for path in ("systemd/system", "nginx/conf.d"):  # a machine has them
            (self.root / "etc" / path).mkdir(parents=True)
        self.checked = self.play("--check")
        self.after_check = ([path.name for path in self.root.rglob("*") if path.is_file()], node.ctl("list_users"))
        with seen_processes() as self.seen:
            self.applied = self.play("-vvv", "--diff")

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """A client of the API through nginx, with TLS."""
        trust = ssl.create_default_context(cafile=str(self.folder / "ca"))
        server = self.read("etc/nginx/conf.d/watcher-sync-api.conf")
        (folder := self.folder / "nginx").mkdir(exist_ok=True)
        client = httpx.Client(base_url=self.variables["watcher_sync_url"], timeout=deadline(60), verify=trust)
        with client, nginx_with(server, folder, client):
            yield client


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("ansible")
    server = sa.make_url(url_of("postgresql"))
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with running_keystone(folder / "keystone") as keystone, private_rabbitmq_node() as node:
        try:
            yield Deployed(folder, keystone, node, server)
        finally:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {DATABASE} (FORCE)")
                connection.exec_driver_sql(f"DROP ROLE IF EXISTS {DATABASE}")


def test_the_linter_passes_the_role_for_production(empty_site: Site) -> None:
    lint = [BIN / "ansible-lint", "--offline", "--nocolor", "--strict", "--profile", "production", "."]
    printed = run(*lint, folder=CONTRIB, **empty_site.environment)
    assert "Passed: 0 failure(s), 0 warning(s)" in printed


def test_the_playbook_has_no_error_of_syntax(empty_site: Site) -> None:
    empty_site.play("--syntax-check")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("watcher_sync_service_manager", "upstart"),
        ("watcher_sync_services", ["engine", "web"]),
        ("watcher_sync_manage", ["mariadb"]),
        ("watcher_sync_api_port", "eight"),
        ("watcher_sync_config", "debug"),
        ("watcher_sync_certificate", ""),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(empty_site: Site, name: str, value: Any) -> None:
    assert name in empty_site.refused(**{name: value})


def test_tls_without_an_authority_is_refused(empty_site: Site) -> None:
    assert "watcher_sync_ca is missing" in empty_site.refused(watcher_sync_tls=True, watcher_sync_ca="")


def test_check_mode_names_what_it_would_make_and_makes_nothing(deployed: Deployed) -> None:
    would = changed(deployed.checked)
    assert {"Create the role and the database of PostgreSQL", "Install the package and gunicorn"} <= set(would)
    files, users = deployed.after_check
    assert files == []
    assert "watcher_sync" not in users


def test_files_are_for_their_readers_also_with_a_strict_umask(deployed: Deployed) -> None:
    etc = deployed.root / "etc" / "watcher-sync"
    modes = {path.name: f"{path.stat().st_mode & 0o777:o}" for path in (etc, *etc.iterdir())}
    files = ("watcher-sync.conf", "restart.sha256", "ca.pem", "api.pem")
    assert modes == {"watcher-sync": "750", "api.key": "600", **dict.fromkeys(files, "640")}
    manage = deployed.root / "opt" / "watcher-sync" / "bin" / "watcher-sync-manage"
    assert [path for path in (manage, *manage.parents[:2]) if path.stat().st_mode & 0o5 != 0o5] == []


def test_ansible_prints_neither_a_password_nor_a_key_and_leaves_no_file(deployed: Deployed) -> None:
    assert "changed=" in deployed.applied
    assert [line for line in deployed.applied.splitlines() if MARK in line or "PRIVATE KEY" in line] == []
    assert [path for path in (deployed.folder / "ansible").rglob("*") if path.is_file()] == []


def test_no_process_of_the_role_shows_a_password(deployed: Deployed) -> None:
    lines = {text.partition(b"\0")[0].rpartition(b"/")[2] for name, text in deployed.seen if name == "cmdline"}
    assert {b"psql", b"ansible-playbook"} <= lines | {b"ansible-playbook"}
    assert [text for _, text in deployed.seen if MARK.encode() in text] == []


@pytest.mark.parametrize(
    ("name", "variable", "instead"),
    [
        ("watcher_sync_database_admin", "PGPASSWORD", "PGPASSFILE"),
        ("watcher_sync_keystone_admin", "OS_PASSWORD", "OS_CLOUD"),
        ("watcher_sync_keystone_admin", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_CLOUD"),
        ("watcher_sync_keystone_admin", "OS_TOKEN", "OS_CLOUD"),
    ],
)
def test_a_password_in_the_environment_of_commands_is_refused(
    empty_site: Site, name: str, variable: str, instead: str
) -> None:
    with seen_processes() as seen:
        printed = empty_site.refused("-vvv", **{name: {variable: MARK}})
    assert f"{name} has a password" in printed
    assert instead in printed
    assert MARK not in printed
    assert [text for _, text in seen if MARK.encode() in text] == []


def test_each_password_arrives_as_it_is(deployed: Deployed) -> None:
    conf = cfg.ConfigOpts()
    for section in ("keystone_authtoken", "reconcile_nova"):
        conf.register_opt(cfg.StrOpt("password"), group=section)
    conf.register_opt(cfg.StrOpt("transport_url"), group="source_nova")
    conf(["--config-file", str(deployed.root / "etc" / "watcher-sync" / "watcher-sync.conf")])
    assert conf.keystone_authtoken.password == PASSWORDS["keystone"]
    assert conf.reconcile_nova.password == PASSWORDS["nova"]
    assert unquote(conf.source_nova.transport_url.split(":")[2].partition("@")[0]) == PASSWORDS["rabbitmq"]
    for name, password in (("watcher-sync", PASSWORDS["keystone"]), ("watcher-sync-nova", PASSWORDS["nova"])):
        user = {"name": name, "domain": {"id": "default"}, "password": password}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = httpx.post(f"{deployed.keystone.url}/auth/tokens", json={"auth": {"identity": identity}})
        assert answer.status_code == 201
    deployed.node.ctl("authenticate_user", "watcher_sync", PASSWORDS["rabbitmq"])


def test_the_units_are_those_of_the_package_and_systemd_accepts_them(deployed: Deployed) -> None:
    units = sorted((deployed.root / "etc" / "systemd" / "system").iterdir())
    assert len(units) == 3
    for unit in units:
        text = unit.read_text().replace(str(deployed.root), "")
        text = text.replace(f" --bind 127.0.0.1:{deployed.variables['watcher_sync_api_port']}", "")
        assert text == (ROOT / "etc" / "systemd" / unit.name).read_text()
        verify = [tool("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", unit]
        assert run(*verify, folder=deployed.folder) == ""


def test_the_services_answer_with_tls_and_a_token_and_the_engine_reads_the_queue(deployed: Deployed) -> None:
    node, keystone = deployed.node, deployed.keystone
    project = keystone.project("deployed")
    token = keystone.token(keystone.user("deployed-admin", project, "admin"), project)
    cloud = CloudSimulator(seed=5, hosts=3, instances=10)
    node.ctl("set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*")
    publisher = Publisher(host=node.host, vhost=VHOST)  # it declares the exchange
    with deployed.running("engine"), deployed.running("api"), deployed.running("outlet"), deployed.client() as client:

        def answers(path: str) -> bool:
            return client.get(path, headers={"X-Auth-Token": token}).status_code == 200

        wait_until(lambda: answers("/healthcheck"), 120, "the health of the API")
        assert client.get("/v1/instances").status_code == 401
        queues = node.ctl("list_queues", "-p", VHOST, "name", "policy")
        assert "watcher-sync\twatcher-sync" in queues
        publisher.publish(cloud.history(300))
        publisher.close()
        instance = next(iter(cloud.reported()["instance"]))
        wait_until(lambda: answers(f"/v1/instances/{instance}"), 60, "an instance")

        def states() -> dict[str, str]:
            found = client.get("/v1/sources", headers={"X-Auth-Token": token}).json()["sources"]
            return {source["source"]: source["state"] for source in found}

        wait_until(lambda: states() == {"nova": "connected"}, 60, "the engine's report that it is connected")


def test_the_second_application_changes_nothing(deployed: Deployed) -> None:
    assert changed(deployed.play()) == []
    assert changed(deployed.play("--check")) == []


def test_only_an_option_that_sighup_does_not_change_asks_for_a_restart(deployed: Deployed) -> None:
    config = deployed.variables["watcher_sync_config"]
    mutable = {**config, "retention": {"journal_days": 3}, "DEFAULT": {"debug": True}}
    printed = deployed.play(watcher_sync_manage=[], watcher_sync_config=mutable)
    assert changed(printed) == ["Write watcher-sync.conf"]
    immutable = {**mutable, "monitoring": {"port": 9465}}
    printed = deployed.play(watcher_sync_manage=[], watcher_sync_config=immutable)
    assert changed(printed) == ["Write watcher-sync.conf", "Note the other options, which need a restart"]


def test_what_differs_on_the_servers_is_set_again(deployed: Deployed) -> None:
    deployed.node.ctl("clear_policy", "-p", VHOST, "watcher-sync")
    deployed.node.ctl("set_permissions", "-p", VHOST, "watcher_sync", "", "", "")
    printed = deployed.play(watcher_sync_url="https://other.example.com:8443")
    assert set(changed(printed)) >= {
        "Set the permissions",
        "Set the limits of the queues",
        "Create the endpoints, or give them the URL",
        "Write the server of nginx",
    }
    written = deployed.read("etc/nginx/conf.d/watcher-sync-api.conf")
    assert re.findall(r"^ *(listen|server_name) ([^ ;]+)", written, re.MULTILINE) == [
        ("listen", "8443"),
        ("server_name", "other.example.com"),
    ]


def test_with_tls_a_database_without_a_verified_certificate_is_refused(deployed: Deployed) -> None:
    printed = deployed.refused(watcher_sync_tls=True, watcher_sync_manage=[])
    assert "Compare the schema with that of the release" in printed.split("TASK [")[-1]
    authority = f"{deployed.root}/etc/watcher-sync/ca.pem"
    config = deployed.read("etc/watcher-sync/watcher-sync.conf")
    assert f"?sslmode=verify-full&sslrootcert={authority}\n" in config
    assert f"[oslo_messaging_rabbit]\nssl = True\nssl_ca_file = {authority}\n" in config
