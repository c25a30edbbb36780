# SPDX-License-Identifier: Apache-2.0
"""A command imports the libraries that it uses, and no other one of those that take long to load."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tests.waiting import deadline

pytestmark = pytest.mark.slow

SLOW: Final = frozenset({
    "aiohttp", "alembic", "cliff", "cryptography", "eventlet", "falcon", "futurist", "google.protobuf", "grpc",
    "jinja2", "jsonschema", "keystoneauth1", "keystonemiddleware", "kubernetes", "nats", "openstack", "opentelemetry",
    "opentelemetry.exporter", "oslo_messaging", "oslo_middleware", "oslo_policy", "pika", "prometheus_client",
    "requests", "rich", "sqlalchemy", "urllib3", "yaml",
})  # fmt: skip
"""The libraries whose import takes 10 ms or more."""

_SHOW: Final = """
import atexit, importlib.metadata, sys
atexit.register(lambda: print(" ".join(sys.modules), end=""))
(entry,) = importlib.metadata.entry_points(group="console_scripts", name=sys.argv[1])
sys.argv = sys.argv[1:]
sys.exit(entry.load()())
"""

_CONFIGURATION: Final = """
[database]
connection = sqlite:///{folder}/model.sqlite
[engine]
enabled_sources = cluster, nova
[source_cluster]
driver = kubernetes
kubeconfig = {folder}/kubeconfig
[source_nova]
driver = rabbitmq
transport_url = rabbit://broker
"""

_OF_THE_DRIVERS: Final = {"pika", "urllib3", "yaml"}
"""The drivers that the configuration names are imported for their options."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with sources and a database that has its schema."""
    folder = tmp_path_factory.mktemp("site")
    path = folder / "watcher-sync.conf"
    path.write_text(_CONFIGURATION.format(folder=folder))
    (folder / "events.jsonl").touch()
    (folder / "no-source.conf").write_text("[engine]\nenabled_sources =\n")
    run("watcher-sync-manage", "--config-file", path, "db_sync")
    return path


def run(*command: object, status: int = 0) -> tuple[str, set[str]]:
    """Run a command to its end, without a line on stderr: what it printed, and what it imported of :data:`SLOW`."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOW, *map(str, command)],
        env={name: value for name, value in os.environ.items() if not name.startswith("OS_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline(120),
        check=False,
    )
    assert (done.returncode, done.stderr if status == 0 else "") == (status, "")
    printed, _, modules = done.stdout.rpartition("\n")
    return printed, SLOW & set(modules.split())


@pytest.mark.parametrize("name", ["manage", "status", "engine", "api", "outlet"])
def test_a_command_prints_its_release_and_its_help_without_any_of_them(name):
    assert run(f"watcher-sync-{name}", "--version") == (f"watcher-sync-{name} {version('watcher-sync')}", set())
    printed, imported = run(f"watcher-sync-{name}", "--help")
    assert (printed.startswith(f"usage: watcher-sync-{name} "), imported) == (True, set())


@pytest.mark.parametrize(
    ("command", "used"),
    [
        ("handlers", {"rich"}),
        ("handlers --format json", set()),
        ("subscription key", {"cryptography"}),
        ("db_sync", {"alembic", "sqlalchemy"}),
        ("db_purge", {"sqlalchemy"}),
        ("model dump --kind instance", {"sqlalchemy"}),
        ("journal tail", {"sqlalchemy"}),
        ("quarantine list", {"sqlalchemy"}),
        ("replay {folder}/events.jsonl", {"sqlalchemy"}),
    ],
)
def test_a_command_of_the_operator_imports_what_it_uses(config, command, used):
    words = command.format(folder=config.parent).split()
    assert run("watcher-sync-manage", "--config-file", config, *words)[1] <= used | _OF_THE_DRIVERS


def test_a_comparison_without_a_source_imports_no_driver(config):
    words = ("--config-file", config.parent / "no-source.conf", "reconcile")
    used = {"cryptography", "eventlet", "futurist", "oslo_messaging", "prometheus_client", "sqlalchemy"}
    assert run("watcher-sync-manage", "--config-file", config, *words, status=2)[1] <= used | _OF_THE_DRIVERS


def test_a_command_that_makes_a_source_imports_the_driver_of_this_source_alone(config):
    words = ["source", "rewind", "nova", "--to", "first"]
    used = {"cryptography", "eventlet", "futurist", "oslo_messaging", "prometheus_client", "sqlalchemy"}
    assert run("watcher-sync-manage", "--config-file", config, *words, status=2)[1] <= used | _OF_THE_DRIVERS


@pytest.mark.parametrize(
    ("command", "status", "used"),
    [
        ("--version", 0, set()),
        ("--endpoint http://127.0.0.1:9 entity list instance", 1, set()),
        ("--endpoint http://127.0.0.1:9 event tail", 1, {"yaml"}),
        ("--help", 0, {"openstack", "prometheus_client", "rich", "yaml"}),
    ],
)
def test_a_command_of_the_client_imports_what_it_uses(command, status, used):
    always = {"cliff", "keystoneauth1", "requests", "urllib3"}  # the options of sessions are those of keystoneauth
    assert run("watcher-sync", *command.split(), status=status)[1] <= used | always


@pytest.mark.parametrize(
    ("module", "used"),
    [
        ("cmd.engine_service", {"jinja2", "urllib3", "yaml"}),
        ("cmd.outlet_services", {"aiohttp"}),
        (
            "wsgi.api",
            {"falcon", "google.protobuf", "jinja2", "jsonschema", "opentelemetry", "oslo_middleware", "oslo_policy"}
            | {"urllib3", "yaml"},
        ),
    ],
)
def test_a_service_imports_what_it_uses(module, used):
    """oslo.middleware imports OpenTelemetry, and futurist imports eventlet with cryptography, where it is installed."""
    program = f"import sys, watcher_sync.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=deadline(120))
    always = {"cryptography", "eventlet", "futurist", "prometheus_client", "sqlalchemy"}
    assert SLOW & set(done.stdout.split()) <= used | always, done.stderr
