# SPDX-License-Identifier: Apache-2.0
"""A cluster and a stored event with hostile texts, the log of a real engine, and the management command."""

from __future__ import annotations

import http.server
import json
import os
import pty
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.executables import start
from tests.unit.security.test_control_characters import FORGED, HOSTILE, unsafe_in
from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.storage.stored.stored_events import RefusedEvent
from watcher_sync.storage.writing.commits import Commit


class Hostile(http.server.BaseHTTPRequestHandler):
    """A cluster that answers every request with an error."""

    def do_GET(self) -> None:
        body = json.dumps({"kind": "Status", "status": "Failure", "code": 500, "message": HOSTILE}).encode()
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of the cluster."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    kubeconfig = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(json.dumps(document))
    yield kubeconfig
    server.shutdown()
    server.server_close()
    thread.join(deadline(10))


def test_the_log_of_an_engine_has_no_line_that_a_cluster_forged(
    install: Callable[..., Installation], sqlite_url: str, cluster: Path
) -> None:
    site = install(sqlite_url, engine__enabled_sources="edge", source_edge__driver="kubernetes")
    site.options |= {"source_edge.kubeconfig": cluster, "source_edge.cluster": "edge"}
    site.upgrade()
    site.engine(site.config())
    log = site.folder / "engine-1.log"
    wait_until(lambda: "owned" in log.read_text(), what="the cluster's text in the log")
    text = log.read_text()
    assert unsafe_in(text) == []
    assert not [line for line in text.splitlines() if line.startswith(FORGED)]


def on_a_terminal(command: list[str]) -> str:
    """What a command prints on a terminal."""
    master, slave = pty.openpty()
    process = start(command, Path(os.ttyname(slave)))
    found = b""
    try:
        has_ended = False
        while not has_ended:
            has_ended = process.poll() is not None  # before the last read
            while select.select([master], [], [], 0.02)[0]:
                found += os.read(master, 65536)
    finally:
        process.kill()
        status = process.wait(deadline(60))
        os.close(slave)
        os.close(master)
    assert status == 0, found
    return found.decode().replace("\r\n", "\n")


def test_the_management_command_writes_no_control_character_of_others_to_a_terminal(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    site = install(sqlite_url)
    site.upgrade()
    event = Event(
        id="1",
        type=HOSTILE[:40],
        source="nova",
        origin=HOSTILE,
        subject=HOSTILE,
        data=HOSTILE.encode(),
        undecodable="x",
    )
    site.store.commit(Commit(generation=0, quarantined=[RefusedEvent(event=event, reason=HOSTILE, detail=HOSTILE)]))
    command = [*site.command("watcher-sync-manage", site.config()), "quarantine"]
    for arguments in (["list"], ["list", "-f", "table"], ["show", "1"]):
        text = on_a_terminal([*command, *arguments])
        assert "owned" in text or "\\u001b" in text
        # A table has the colours of its head.
        plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert unsafe_in(plain) == []
