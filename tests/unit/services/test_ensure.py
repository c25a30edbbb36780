# SPDX-License-Identifier: Apache-2.0
"""A service that cannot be had ends the run with one line; it is never passed over."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.services import ensure as services
from tests.services.ensure import CannotEnsure, ensure, without_credentials
from tests.services.probes import why_unusable
from tests.services.servers import Nats, program
from tests.waiting import deadline

ROOT = Path(__file__).parents[3]


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


@pytest.fixture
def chatterer() -> Iterator[int]:
    """A port of a server that speaks HTTP only, so it is neither a broker nor a database."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + b" " * 64)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(deadline(10))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.services.ensure", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=deadline(300),
        check=False,
    )


def test_an_address_that_was_given_and_does_not_answer_ends_the_run_in_one_line(closed_port: int) -> None:
    given = f"postgresql+psycopg://root:secret@127.0.0.1:{closed_port}/postgres"
    done = run("--only", "postgresql", "--", "echo", "ran", WATCHER_SYNC_TEST_POSTGRESQL_URL=given)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "postgresql is missing: WATCHER_SYNC_TEST_POSTGRESQL_URL" in line
    assert f"127.0.0.1:{closed_port}" in line
    assert "secret" not in line


@pytest.mark.parametrize("service", ["rabbitmq", "postgresql", "mariadb", "nats"])
def test_something_else_on_the_port_does_not_pass_for_the_service(service: str, chatterer: int) -> None:
    assert why_unusable(service, f"{service}://root@127.0.0.1:{chatterer}/") is not None


@pytest.mark.parametrize("service", ["rabbitmq", "postgresql", "mariadb", "nats"])
def test_a_port_without_a_server_is_reported(service: str, closed_port: int) -> None:
    reason = why_unusable(service, f"{service}://root@127.0.0.1:{closed_port}/")
    assert reason is not None
    assert reason.startswith(f"127.0.0.1:{closed_port}: ")


def test_the_exit_status_is_the_commands_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def nats() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"INFO {}\r\n")
                connection.recv(4096)
                connection.sendall(b"PONG\r\n")

        thread = threading.Thread(target=nats)
        thread.start()
        url = f"nats://127.0.0.1:{server.getsockname()[1]}"
        done = run(
            "--only",
            "nats",
            "--",
            sys.executable,
            "-c",
            "import os, sys; print(os.environ['WATCHER_SYNC_TEST_NATS_URL']); sys.exit(7)",
            WATCHER_SYNC_TEST_NATS_URL=url,
        )
        thread.join(deadline(10))
    assert done.returncode == 7
    assert done.stdout.strip() == url


class Absent(Nats):
    """A server whose program is on no machine."""

    def _command(self) -> list[str]:
        return [program("watcher-sync-no-such-program")]


def test_a_program_that_cannot_be_installed_is_named_with_its_package_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, closed_port: int, tmp_path: Path
) -> None:
    monkeypatch.delenv(services.VARIABLES["nats"], raising=False)
    monkeypatch.setitem(services.DEFAULT_URLS, "nats", f"nats://127.0.0.1:{closed_port}")
    monkeypatch.setitem(services.SERVERS, "nats", Absent)
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt-get there
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(CannotEnsure, match=r"^nats is missing: watcher-sync-no-such-program .* package nats-server "),
        ExitStack() as stack,
    ):
        ensure("nats", stack)
    assert list(tmp_path.iterdir()) == []


def test_no_password_is_printed() -> None:
    assert without_credentials("rabbit://guest:gu@st@127.0.0.1:5672/") == "rabbit://127.0.0.1:5672/"


def test_a_browser_that_was_named_and_is_not_there_ends_the_run_in_one_line(tmp_path: Path) -> None:
    done = run("--only", "chromium", "--", "echo", "ran", WATCHER_SYNC_TEST_CHROMIUM=str(tmp_path / "chromium"))
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"chromium is missing: {tmp_path / 'chromium'} is not installed" in line


def test_a_tool_that_the_environment_names_wrongly_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(services.VARIABLES["kubectl"], "/nowhere/kubectl")
    with pytest.raises(CannotEnsure, match="/nowhere/kubectl is not installed"):
        services.ensure_tool("kubectl")


def test_a_tool_that_the_environment_names_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(services.VARIABLES["kubectl"], sys.executable)
    assert services.ensure_tool("kubectl") == sys.executable
