# SPDX-License-Identifier: Apache-2.0
"""The install guide from its first command to both services answering, in a new virtual environment.

The commands and the configurations are those of the pages. Only the folders, the servers and the ports are those of the
test, and the command lines of the systemd units run without systemd.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import Line
from tests.functional.security import documented
from tests.functional.security.keystone import running_keystone
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

_ROOT = Path(__file__).parents[3]
_GUIDE = "admin/install.rst"
_PREFIX = "/opt/watcher-sync"

# Packages are downloaded, and the test waits for a Keystone that is installed first.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(900)]


def run(command: Sequence[object], folder: Path, **environment: str) -> str:
    """:returns: what the command printed. :raises AssertionError: it failed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=deadline(400), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


@contextlib.contextmanager
def unit(name: str, prefix: Path, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a systemd unit."""
    lines = (prefix / "etc" / "systemd" / f"{name}.service").read_text().splitlines()
    (line,) = (line.partition("=")[2] for line in lines if line.startswith("ExecStart="))
    command = shlex.split(line.replace(_PREFIX, str(prefix)).replace("/etc/watcher-sync", str(log.parent)))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            assert process.wait(deadline(60)) == 0, log.read_text()[-2000:]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            raise


def installed(folder: Path) -> Path:
    """Build and install as the guide says. :returns: the virtual environment."""
    prefix = folder / "opt"
    run(["git", "clone", "--quiet", "--no-hardlinks", _ROOT, folder / "source"], folder)
    build = [sys.executable, "tools/release.py", "--into", "dist", "--python", sys.executable]  # make release
    run(build, folder / "source")
    run(["python3", "-m", "venv", prefix], folder)
    command, _plugins = documented.commands(_GUIDE, f"{_PREFIX}/bin/pip")
    (wheel,) = (folder / "source" / "dist").glob("*.whl")
    words = [word.replace(_PREFIX, str(prefix)) for word in command]
    run([str(wheel) if word.startswith("dist/") else word for word in words], folder / "source")
    return prefix


def test_the_guide_leads_from_the_source_to_both_services(
    tmp_path: Path, postgresql_url: str, line: Callable[[str], Line]
) -> None:
    prefix = installed(tmp_path)
    nova = line("nova")
    with running_keystone(tmp_path / "keystone") as keystone:
        keystone.register()
        config = tmp_path / "watcher-sync.conf"
        config.write_text(_configuration(keystone.url, postgresql_url, nova, tmp_path))
        config.chmod(0o600)
        sync, *_ = documented.commands(_GUIDE, f"{_PREFIX}/bin/watcher-sync-manage")
        run([word.replace(_PREFIX, str(prefix)).replace("/etc/watcher-sync", str(tmp_path)) for word in sync], tmp_path)
        cloud = CloudSimulator(seed=5, hosts=3, instances=10)
        port = free_port()
        project = keystone.project("guide")
        token = keystone.token(keystone.user("guide-admin", project, "admin"), project)
        names = {"OS_WATCHER_SYNC_CONFIG_FILES": str(config), "GUNICORN_CMD_ARGS": f"--bind 127.0.0.1:{port}"}
        with (
            unit("watcher-sync-engine", prefix, tmp_path / "engine.log"),
            unit("watcher-sync-api", prefix, tmp_path / "api.log", **names),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(30)) as client,
        ):

            def answers(path: str) -> bool:
                """Whether it answers 200, with something in a list."""
                with contextlib.suppress(httpx.TransportError):
                    answer = client.get(path, headers={"X-Auth-Token": token})
                    return answer.status_code == 200 and bool(answer.json())
                return False

            wait_until(lambda: answers("/v1"), 60, "the API")
            nova.publish(cloud.history(300))
            wait_until(lambda: answers("/v1/instances/" + next(iter(cloud.reported()["instance"]))), 60, "an instance")
            assert client.get("/v1/instances").status_code == 401
    assert "Traceback" not in (tmp_path / "engine.log").read_text() + (tmp_path / "api.log").read_text()


def _configuration(keystone: str, database: str, nova: Line, folder: Path) -> str:
    """The two configurations of the pages, with the addresses of this machine."""
    first = documented.configuration("admin/configure.rst", "source_nova")
    second = documented.configuration(_GUIDE, "keystone_authtoken")
    url = sa.make_url(database).render_as_string(hide_password=False)
    (documented_url,) = (w for w in first.split() if w.startswith("postgresql://"))
    (documented_broker,) = (w for w in first.split() if w.startswith("rabbit://"))
    source = nova.source("nova")
    first = first.replace(documented_url, url).replace(documented_broker, source["source_nova.transport_url"])
    for name in ("exchange", "topics", "pool"):
        if f"source_nova.{name}" in source:
            (old,) = (row for row in first.splitlines() if row.startswith(f"{name} = "))
            first = first.replace(old, f"{name} = {source[f'source_nova.{name}']}")
    monitoring = f"[monitoring]\nport = {free_port()}\n"
    state = f"[DEFAULT]\nstate_path = {folder}\n"
    return state + (first + second).replace("https://keystone.example.com/v3", keystone) + monitoring
