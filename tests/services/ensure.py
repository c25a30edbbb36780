# SPDX-License-Identifier: Apache-2.0
"""Run a command with the services that the functional tests need::

    python -m tests.services.ensure -- pytest tests/functional

For each of RabbitMQ, PostgreSQL, MariaDB and NATS it uses the first of these:

* an address in the environment, which must work;
* a server on the usual loopback port that accepts the login;
* a private server on a free port, which it stops after the command.

Programs that tests run (:data:`TOOLS`, and Chromium) come from the environment or PATH. As root with apt-get it
installs missing programs from the distribution. If something remains missing, it prints one line and exits
with 1.

The command gets the addresses in the variables :data:`VARIABLES`. Without a command it prints what it found. It runs
before the installation, with the standard library only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import FrameType

from tests.services import browser
from tests.services.probes import why_unusable
from tests.services.servers import MariaDB, Nats, PostgreSQL, RabbitMQ, Server, ServiceBroken, ServiceMissing, program
from watcher_sync.testing.deadlines import deadline

VARIABLES = {
    "rabbitmq": "WATCHER_SYNC_TEST_RABBITMQ_URL",
    "postgresql": "WATCHER_SYNC_TEST_POSTGRESQL_URL",
    "mariadb": "WATCHER_SYNC_TEST_MARIADB_URL",
    "nats": "WATCHER_SYNC_TEST_NATS_URL",
    browser.NAME: browser.VARIABLE,
    "kubectl": "WATCHER_SYNC_TEST_KUBECTL",
    "nginx": "WATCHER_SYNC_TEST_NGINX",
    "systemd-analyze": "WATCHER_SYNC_TEST_SYSTEMD_ANALYZE",
}

DEFAULT_URLS = {
    "rabbitmq": "rabbit://guest:guest@127.0.0.1:5672/",
    "postgresql": "postgresql+psycopg://root@127.0.0.1:5432/postgres",
    "mariadb": "mysql+pymysql://root@127.0.0.1:3306/",
    "nats": "nats://127.0.0.1:4222",
}

SERVERS: dict[str, type[Server]] = {
    "rabbitmq": RabbitMQ,
    "postgresql": PostgreSQL,
    "mariadb": MariaDB,
    "nats": Nats,
}

PACKAGES = {
    "rabbitmq": "rabbitmq-server",
    "postgresql": "postgresql",
    "mariadb": "mariadb-server",
    "nats": "nats-server",
    browser.NAME: browser.PACKAGE,
    "kubectl": "kubernetes-client",
    "nginx": "nginx",
    "systemd-analyze": "systemd",
}

TOOLS = ("kubectl", "nginx", "systemd-analyze")
"""Programs that each test starts by itself; their variables hold paths."""


class CannotEnsure(Exception):
    """A service cannot be had on this machine; the message is the one line to show."""


def url_of(service: str) -> str:
    """Where the tests find the service: the address of the environment, else the usual one.

    :raises CannotEnsure: when nothing usable is there.
    """
    url = os.environ.get(VARIABLES[service], DEFAULT_URLS[service])
    reason = why_unusable(service, url)
    if reason is not None:
        raise CannotEnsure(
            f"{service} is missing: {reason}; set {VARIABLES[service]}, or run the tests through "
            "`python -m tests.services.ensure -- COMMAND`, which starts one"
        )
    return url


def tool(name: str) -> str:
    """The path of a program of :data:`TOOLS`: the one that the environment names, else the one of the system.

    :raises CannotEnsure: when there is none.
    """
    try:
        return program(os.environ.get(VARIABLES[name], name))
    except ServiceMissing as exc:
        raise CannotEnsure(
            f"{name} is missing: {exc}; install the package {PACKAGES[name]}, "
            f"set {VARIABLES[name]}, or run the tests through `python -m tests.services.ensure -- COMMAND`, "
            "which installs it"
        ) from None


def ensure_tool(name: str) -> str:
    """The path of the program, which is installed where it is missing.

    :raises CannotEnsure: saying what is missing.
    """
    with suppress(CannotEnsure):
        return tool(name)
    if VARIABLES[name] not in os.environ:
        _install(name, because=f"{name} is not installed")
    return tool(name)


def ensure(service: str, stack: ExitStack) -> str:
    """The address of a usable server; one that is started here goes when the stack is closed.

    :raises CannotEnsure: saying what is missing.
    """
    if service == browser.NAME:
        return _ensure_browser()
    if VARIABLES[service] in os.environ:
        given = os.environ[VARIABLES[service]]
        reason = why_unusable(service, given)
        if reason is not None:
            raise CannotEnsure(f"{service} is missing: {VARIABLES[service]} names one that is not usable: {reason}")
        return given
    reason = why_unusable(service, DEFAULT_URLS[service])
    if reason is None:
        return DEFAULT_URLS[service]
    _say(f"{service}: {reason}; starting a private one")
    try:
        return _started(service, stack).url
    except ServiceMissing as exc:
        _install(service, because=str(exc))
    except ServiceBroken as exc:
        raise CannotEnsure(f"{service} is missing: {exc}") from exc
    try:
        return _started(service, stack).url
    except (ServiceMissing, ServiceBroken) as exc:
        raise CannotEnsure(f"{service} is missing even after {PACKAGES[service]} was installed: {exc}") from exc


def _ensure_browser() -> str:
    """The path of a Chromium that can be driven."""
    try:
        return browser.find().chromium
    except ServiceMissing as exc:
        if VARIABLES[browser.NAME] in os.environ:
            raise CannotEnsure(f"{browser.NAME} is missing: {exc}") from exc
        _install(browser.NAME, because=str(exc))
    try:
        return browser.find().chromium
    except ServiceMissing as exc:
        raise CannotEnsure(f"{browser.NAME} is missing even after {browser.PACKAGE} was installed: {exc}") from exc


def _started(service: str, stack: ExitStack) -> Server:
    server = SERVERS[service]()
    stack.callback(server.remove)
    return server.create()


def _install(service: str, *, because: str) -> None:
    package = PACKAGES[service]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise CannotEnsure(
            f"{service} is missing: {because}; install the package {package} "
            f"(this needs root and apt-get) or set {VARIABLES[service]}"
        )
    _say(f"{service}: {because}; installing the package {package}")
    # RUNLEVEL=1 keeps the package from starting a server of its own where there is no systemd. Where it
    # starts one all the same, that does no harm: ours gets a free port.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
    for command in (["apt-get", "update", "--quiet"], install):
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise CannotEnsure(f"{service} is missing: {' '.join(command)} failed with status {done.returncode}")


def _say(line: str) -> None:
    print(f"services: {line}", file=sys.stderr, flush=True)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    """:returns: the command's exit status; 1 when a service is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.services.ensure", description="Run with all services.")
    parser.add_argument(
        "--only", action="append", choices=[*SERVERS, browser.NAME, *TOOLS], help="not all of them; may be repeated"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --")
    arguments = parser.parse_args(argv)
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    # A stopped run must stop its servers too.
    signal.signal(signal.SIGTERM, _interrupted)
    with ExitStack() as stack:
        for service in arguments.only or [*SERVERS, browser.NAME, *TOOLS]:
            try:
                found = ensure_tool(service) if service in TOOLS else ensure(service, stack)
                os.environ[VARIABLES[service]] = found
            except CannotEnsure as exc:
                _say(str(exc))
                return 1
            _say(f"{service}: {without_credentials(os.environ[VARIABLES[service]])}")
        if not command:
            return 0
        child = subprocess.Popen(command)
        try:
            return child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(deadline(30))


def without_credentials(url: str) -> str:
    """The address without its credentials, fit to be printed; a path as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    return f"{scheme}://{rest.rpartition('@')[2]}"


if __name__ == "__main__":
    sys.exit(main())
