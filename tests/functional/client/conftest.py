# SPDX-License-Identifier: Apache-2.0
"""A development server over SQLite with a simulated cloud in it, and the executables that ask it."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import signal
import subprocess
import unittest.mock
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functional.api.conftest import config_on
from tests.functional.executables import BIN, PRELOADED, Process, run_preloaded, start
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services.servers import free_port
from tests.simulated import cloud, nova
from tests.waiting import deadline, wait_until
from watcher_sync.client import shell
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.source_status import SourceRow, write_sources
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


class Site:
    """One database and its API."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.cycle = CommitCycle(store, store.load(), nova())
        self.events, self.truth = cloud(seed=7, n=300)
        self._used = 0
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: Process | None = None

    def commit(self, events: Sequence[Event]) -> None:
        """As an engine would."""
        for first in range(0, len(events), 25):
            self.cycle.run(Batch(events=events[first : first + 25]))

    def more(self, count: int) -> list[Event]:
        """The next events, which no test has used."""
        found = self.events[self._used : self._used + count]
        assert len(found) == count, "all events are used"
        self._used += count
        return found

    def start(self) -> None:
        """The API, until it answers."""
        # No engine writes the state of the sources again, and an operation lasts until a test ends it.
        long = {"monitoring__stale_after": 3600, "operations__lease_time": 600}
        config = config_on(self.store, self.folder, port=self.port, **long)
        self._process = start([BIN / "watcher-sync-api", "--config-file", config], self.folder / "api.log")
        wait_until(self._answers, 120, "the API")

    def stop(self) -> None:
        """The API, until it has ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(deadline(60))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "api.log").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/v1", timeout=deadline(60)) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """A site with a cloud, a source with a problem, a drift, and three events in quarantine; its API runs."""
    store = migrate(opened(f"sqlite:///{folder / 'watcher-sync.sqlite'}", builtin_kinds()))
    site = Site(store, folder)
    site.commit(site.more(200))
    site.commit(
        [
            Event(id="1", type="instance.create.end", source="nova", data={"nonsense": 1}),
            Event(id="2", type="undecodable", source="nova", data=b"{", undecodable="no JSON"),
            Event(id="3", type="undecodable", source="nova", data=b"\xff", undecodable="no text"),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    known = {"engine_group": "g", "host": "h", "pid": 1, "updated_at": now}
    write_sources(
        store.database,
        [
            SourceRow(source="nova", state="connected", since=now, lag=0, **known),
            SourceRow(source="edge", state="disconnected", detail="no route", since=now - DAY, **known),
        ],
    )
    difference = FieldDifference(
        kind="instance", entity_id="i", field="host", model_value="a", live_value="b", policy="heal"
    )
    replace_drifts(store.database, [difference], source="nova", kinds=["instance"], now=now)
    try:
        site.start()
        yield site
    finally:
        site.stop()
        store.close()
        store.database.dispose()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One site for all tests of a module, which may write to it and restart its API; see :func:`running_site`."""
    with running_site(tmp_path_factory.mktemp("site")) as site:
        yield site


DAY = datetime.timedelta(days=1)

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(**variables: str) -> dict[str, str]:
    """This process's own without what would name a server, and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "WATCHER_SYNC_"))}
    return {**kept, "COLUMNS": "120", **variables}


def run(executable: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One of the installed executables, run to its end."""
    if executable in PRELOADED:
        return run_preloaded(
            executable,
            arguments,
            program=str(BIN / executable),
            environment=environment(**variables),
            timeout=deadline(120),
        )
    return subprocess.run(
        [BIN / executable, *arguments],
        capture_output=True,
        text=True,
        timeout=deadline(120),
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment(**variables),
    )


def run_here(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``watcher-sync`` in this process: for many commands one after the other, of which others run as executables."""
    out, err = io.StringIO(), io.StringIO()
    with (
        unittest.mock.patch.dict(os.environ, environment(**variables), clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = shell.run(list(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(["watcher-sync", *arguments], status, out.getvalue(), err.getvalue())


def client_of(site: Site) -> Run:
    """``watcher-sync`` with the site's address in its environment."""

    def run_it(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run("watcher-sync", *arguments, **{"WATCHER_SYNC_ENDPOINT": site.url, **variables})

    return run_it


@pytest.fixture
def watcher_sync(site: Site) -> Run:
    """``watcher-sync`` with the site's address in its environment."""
    return client_of(site)
