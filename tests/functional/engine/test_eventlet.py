# SPDX-License-Identifier: Apache-2.0
"""Native threads: eventlet is not needed where it is absent, and not let in where it is present."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation, Line
from tests.waiting import deadline
from watcher_sync.testing.nova.cloud import CloudSimulator, write_jsonl


@pytest.mark.rare
def test_engine_and_manage_work_where_eventlet_cannot_be_imported(
    install: Callable[..., Installation], line: Callable[[str], Line], sqlite_url: str, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "eventlet.py").write_text("raise ImportError('eventlet is blocked')\n")
    nova = line("nova")
    site = install(sqlite_url, engine__enabled_sources="nova")
    site.options |= nova.source("nova")
    site.environment["PYTHONPATH"] = str(blocked)
    imports = "; ".join(
        f"import watcher_sync.sources.{driver}" for driver in ("kubernetes.source", "nats.source", "rabbitmq.source")
    )
    proof = subprocess.run(
        [sys.executable, "-c", f"{imports}; import eventlet"], capture_output=True, env=site.environment
    )
    assert b"eventlet is blocked" in proof.stderr
    assert proof.stderr.count(b"watcher_sync") == 0, "a driver needs it"
    site.manage("db_sync")
    cloud = CloudSimulator(seed=90, hosts=5, instances=20)
    recording = tmp_path / "first.jsonl"
    write_jsonl(recording, cloud.history(200))
    site.manage("replay", recording)
    nova.publish(cloud.history(300))
    config = site.config()
    engine = site.engine(config)
    engine.wait_until_leading()
    site.drain(config, nova, engine=engine)
    site.check(cloud.reported())


def test_an_engine_that_has_run_leaves_the_standard_library_as_it_was(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    site = install(sqlite_url, engine__enabled_sources="nova", source_nova__driver="oslo_messaging")
    site.options["source_nova.transport_url"] = "kombu+memory://"
    site.upgrade()
    script = """
        import importlib.util, json, sys, threading, time
        from watcher_sync.assembly import process

        process.prepare()
        from watcher_sync.testing.deadlines import Deadline, deadline
        from watcher_sync.assembly.engine import assemble
        from watcher_sync.sources.base import SourceState
        from watcher_sync.testing.deadlines import Deadline

        engine = assemble(process.make_conf(["--config-file", sys.argv[1]], prog="test"))
        thread = threading.Thread(target=engine.run)
        thread.start()
        limit = Deadline(60)
        while [s.state for s in engine.source_status().values()] != [SourceState.CONNECTED]:
            assert not limit.is_over, engine.source_status()
            time.sleep(0.01)
        engine.stop(5)
        thread.join(deadline(60))
        assert not thread.is_alive()
        import os, queue, select, socket, subprocess
        patched = {}
        if importlib.util.find_spec("eventlet"):
            from eventlet import patcher
            names = ("os", "select", "socket", "thread", "time", "queue", "subprocess", "threading", "ssl", "psycopg")
            patched = {name: bool(patcher.is_monkey_patched(name)) for name in names}
        homes = [socket.socket.__module__, threading.Thread.__module__, threading.Event.__module__,
                 type(time.sleep).__name__, type(select.select).__name__]
        print(json.dumps([patched, homes]))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(site.config())]
    done = subprocess.run(command, capture_output=True, text=True, env=site.environment, timeout=deadline(60))
    assert done.returncode == 0, done.stderr
    patched, homes = json.loads(done.stdout.splitlines()[-1])
    if importlib.util.find_spec("eventlet"):
        assert patched
    assert not any(patched.values()), patched
    assert homes == ["socket", "threading", "threading", "builtin_function_or_method", "builtin_function_or_method"]
