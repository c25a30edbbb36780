# SPDX-License-Identifier: Apache-2.0
"""API workers as processes on real databases, and the engine's place beside them taken by a commit cycle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.functional.executables import BIN, Process
from tests.functional.executables import start as started
from tests.functional.storage.conftest import opened
from tests.services.servers import free_port
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture(params=["postgresql", *(pytest.param(name, marks=pytest.mark.rare) for name in ("sqlite", "mariadb"))])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An engine's store, with an empty schema: on PostgreSQL, and in the rare tests on each other database."""
    yield from _store(request.getfixturevalue(f"migrated_{request.param}_url"))


@pytest.fixture
def postgresql_store(migrated_postgresql_url: str) -> Iterator[Store]:
    """The same on PostgreSQL only."""
    yield from _store(migrated_postgresql_url)


def _store(url: str) -> Iterator[Store]:
    store = opened(url, builtin_kinds())
    yield store
    store.close()
    store.database.dispose()


def config_on(store: Store, folder: Path, **options: object) -> Path:
    """A configuration file for a process on the same database, without authentication.

    :param options: of ``[api]``; ``database__`` begins the names of those of ``[database]``.
    """
    url = store.database.url.render_as_string(hide_password=False)
    # No pause of a loaded machine ends the transaction of a writer, nor the wait of another one for it.
    patient = [f"idle_transaction_timeout = {PATIENCE_SECONDS:.0f}", f"commit_timeout = {PATIENCE_SECONDS:.0f}"]
    sections = {
        "database": [f"connection = {url}", *patient],
        "api": ["auth_strategy = noauth"],
    }
    for name, value in options.items():
        group, _, option = name.rpartition("__")
        sections.setdefault(group or "api", []).append(f"{option} = {value}")
    file = folder / "watcher-sync.conf"
    file.write_text("".join(f"[{group}]\n" + "\n".join(lines) + "\n" for group, lines in sections.items()))
    return file


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., httpx.Client]]:
    """Starts API workers under gunicorn; gives a client."""
    with ExitStack() as stack:

        def start(store: Store, *, workers: int, threads: int, **options: object) -> httpx.Client:
            port = free_port()
            command = [
                BIN / "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", str(workers), "--threads", str(threads),
                "--graceful-timeout", "1", "--timeout", "120", "watcher_sync.wsgi.api:application",
            ]  # fmt: skip
            environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config_on(store, tmp_path, **options))}
            process = started(command, tmp_path / "gunicorn.log", environment)
            stack.callback(process.wait)
            stack.callback(_kill, process)
            client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(90)))
            wait_until(lambda: _answers(client, process, tmp_path), 120, "the API")
            return client

        yield start


def _answers(client: httpx.Client, process: Process, folder: Path) -> bool:
    assert process.poll() is None, (folder / "gunicorn.log").read_text()
    try:
        return client.get("/v1").status_code == 200
    except httpx.TransportError:
        return False


def _kill(process: Process) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
