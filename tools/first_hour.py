#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first hour of an operator as a story: every command runs, and the transcript is printed.

::

    tools/first_hour.py [--install WHEEL] [--into FILE]

It installs, connects, looks, finds a broken VNF instance, heals it, replays a quarantined event, and upgrades. The
commands are the real ones; a fake Kubernetes API and a simulated Nova take the part of the cloud. The database is
SQLite, in a folder that is removed at the end. Exit status 1: a command failed, or the story did not happen.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment
from watcher_sync.testing.nova.cloud import CloudSimulator

PATIENCE_SECONDS = 120
"""How long the story waits for what has to become true."""

VNF = """\
id: firewall-1
name: firewall
cluster: edge
vnfd_id: helloworld3
vdus:
  VDU1: {workload: {kind: Deployment, name: vdu1}, initial: 2, min: 1, max: 3}
"""

CONFIG = """\
[DEFAULT]
state_path = {folder}
[engine]
enabled_sources = edge
max_clock_skew = {skew}
[source_edge]
driver = kubernetes
kubeconfig = {folder}/kubeconfig
[operations]
lease_time = 300
[api]
auth_strategy = noauth
port = {port}
"""


class StoryFailed(Exception):
    """A command failed, or what it should show did not come."""


class Story:
    """Runs commands and writes the transcript."""

    def __init__(self, folder: Path, programs: Path, out: TextIO) -> None:
        self.folder = folder
        self.config = folder / "watcher-sync.conf"
        self._programs = programs
        self._out = out
        self._port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def tell(self, text: str) -> None:
        """One line of the story."""
        print(f"\n# {text}", file=self._out, flush=True)

    def run(self, command: str, *, shown: bool = True, status: int = 0) -> str:
        """Runs a command of the environment, and returns what it prints.

        :raises StoryFailed: when it ends with another status.
        """
        program, *arguments = shlex.split(command)
        found = self._programs / program
        done = subprocess.run(
            [str(found) if found.exists() else program, *arguments],
            cwd=self.folder, env=self._environment(), capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        if shown or done.returncode != status:
            text = (done.stdout + done.stderr).rstrip().replace(str(self.folder), ".")
            print(f"$ {command}" + (f"\n{text}" if text else ""), file=self._out, flush=True)
        if done.returncode != status:
            raise StoryFailed(f"{command}: status {done.returncode}")
        return done.stdout

    def until(self, command: str, holds: Callable[[str], bool]) -> str:
        """Repeats a command until its output is the wanted one, and shows that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(text := self.run(command, shown=False)):
            if time.monotonic() > deadline:
                raise StoryFailed(f"{command}: still prints {text!r}")
            time.sleep(0.2)
        print(f"$ {command}\n{text.rstrip()}", file=self._out, flush=True)
        return text

    def configure(self, *, skew: int) -> None:
        """Writes the configuration."""
        self.config.touch(mode=0o600)
        self.config.write_text(CONFIG.format(folder=self.folder, port=self._port, skew=skew))

    def start(self, name: str) -> None:
        """Starts a service, as systemd would."""
        print(f"$ systemctl start {name}", file=self._out, flush=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(self._programs / name), "--config-file", str(self.config)],
                cwd=self.folder, env=self._environment(), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        if name == "watcher-sync-api":
            self._wait_for_port()

    def stop(self, name: str, *, shown: bool = True) -> None:
        """Stops a service gracefully."""
        if shown:
            print(f"$ systemctl stop {name}", file=self._out, flush=True)
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise StoryFailed(f"{name} does not stop") from None

    def end(self) -> None:
        """Stops what runs."""
        for name in list(self._processes):
            with contextlib.suppress(StoryFailed):
                self.stop(name, shown=False)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "WATCHER_SYNC_"))}
        return {**kept, "WATCHER_SYNC_ENDPOINT": f"http://127.0.0.1:{self._port}", "COLUMNS": "120"}

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5):
                return
            time.sleep(0.1)
        raise StoryFailed("the API does not listen")


def play(story: Story, cluster: KubernetesServer, wheel: Path | None) -> None:
    """The whole story.

    :raises StoryFailed: when something in it did not happen.
    """
    manage = "watcher-sync-manage --config-file watcher-sync.conf"
    story.tell("Install")
    if wheel is not None:
        story.run(f"{sys.executable} -m venv --system-site-packages venv")
        story.run(f"venv/bin/python -m pip install --quiet --no-deps {wheel}")
    story.run("watcher-sync-engine --version")
    story.configure(skew=300)
    story.run(f"{manage} db_sync")
    story.run("watcher-sync-status --config-file watcher-sync.conf upgrade check", status=1)

    story.tell("Connect")
    story.start("watcher-sync-engine")
    story.start("watcher-sync-api")
    connected = "watcher-sync source list -c Source -c State -c Fresh"
    story.until(connected, lambda text: "connected" in text.replace("disconnected", ""))

    story.tell("Look")
    story.until(
        "watcher-sync entity list pod --fields name,phase,node --sort name", lambda text: text.count("vdu1-") == 2
    )
    (story.folder / "firewall.yaml").write_text(VNF)
    story.run("watcher-sync vnf create --file firewall.yaml -c id -c state -c vdus")
    state = "watcher-sync vnf list -c Name -c State -c Observed"
    story.until(state, lambda text: "SYNCED" in text)

    story.tell("Find a broken VNF: its deployment was scaled to nothing")
    cluster.cluster.scale("Deployment", "vdu1", 0)
    cluster.cluster.settle()
    broken = "watcher-sync vnf list --filter state!=SYNCED -c ID -c State -c Observed"
    story.until(broken, lambda text: "OUT_OF_RANGE" in text)
    story.run("watcher-sync vnf show firewall -c state -c observed -c vdu_results")
    story.run("watcher-sync event list --kind vnf_instance --limit 3 -c Seq -c Change -c Delta")

    story.tell("Heal: take the instance, repair the deployment, compare, release")
    begun = story.run(
        "watcher-sync vnf operation create firewall-1 HEAL -f shell -c id -c token -c secret", shown=False
    )
    lease = dict(re.findall(r'^(\w+)="(.*)"$', begun, re.MULTILINE))
    (story.folder / "secret").touch(mode=0o600)
    (story.folder / "secret").write_text(lease["secret"])
    story.run("watcher-sync vnf operation list firewall-1 -c Operation -c State -c Token")
    story.run("watcher-sync vnf operation create firewall-1 SCALE", status=1)
    cluster.cluster.scale("Deployment", "vdu1", 2)
    cluster.cluster.settle()
    end = f"watcher-sync vnf operation end firewall-1 {lease['id']} --token {lease['token']} --secret-file secret"
    story.run(end)
    story.until(state, lambda text: "SYNCED" in text and "OUT_OF_RANGE" not in text)

    story.tell("Replay a quarantined event: a Nova host had a clock that is an hour ahead")
    (story.folder / "nova.json").write_text(json.dumps(from_the_future()))
    story.run(f"{manage} replay nova.json")
    story.run("watcher-sync quarantine list -c ID -c 'Event Type' -c Reason")
    story.configure(skew=7200)
    story.run(f"{manage} quarantine replay --all")
    story.until("watcher-sync entity list instance --fields name,state", lambda text: "late" in text)
    story.run("watcher-sync quarantine list -f value")

    story.tell("Upgrade: the schema first, then one process after the other")
    before = story.run("watcher-sync entity list vnf_instance -f json", shown=False)
    story.run(f"{manage} db_sync --dry-run")
    story.run(f"{manage} db_sync")
    for service in ("watcher-sync-engine", "watcher-sync-api"):
        story.stop(service)
        story.start(service)
    story.run(f"{manage} db_sync --contract")
    story.until(connected, lambda text: "connected" in text.replace("disconnected", ""))
    if story.run("watcher-sync entity list vnf_instance -f json", shown=False) != before:
        raise StoryFailed("the upgrade changed the model")


def from_the_future() -> dict[str, Any]:
    """Nova's notification of a new instance, with a time an hour ahead."""
    documents = CloudSimulator(seed=5, hosts=3, instances=5).history(200)
    created: dict[str, Any] = next(d for d in map(_decoded, documents) if d["event_type"] == "instance.create.end")
    data = created["payload"]["nova_object.data"]
    data["uuid"] = str(uuid.uuid4())
    data["display_name"] = "late"
    ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    created["timestamp"] = f"{ahead:%Y-%m-%d %H:%M:%S.%f}"
    created["message_id"] = str(uuid.uuid4())
    return created


def _decoded(document: Any) -> dict[str, Any]:
    return dict(json.loads(document)) if isinstance(document, (bytes, str)) else dict(document)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def cluster_of(folder: Path) -> Iterator[KubernetesServer]:
    """A fake Kubernetes API with one deployment, and its kubeconfig in the folder."""
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=2))
        server.cluster.settle()
        server.kubeconfig(folder / "kubeconfig")
        yield server


def main() -> int:
    """Plays the story; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--install", type=Path, metavar="WHEEL", help="install this wheel into a new environment first")
    parser.add_argument("--into", type=argparse.FileType("w"), default=sys.stdout, help="the file of the transcript")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as name, cluster_of(Path(name)) as cluster:
        folder = Path(name)
        programs = folder / "venv" / "bin" if options.install else Path(sys.executable).parent
        story = Story(folder, programs, options.into)
        try:
            play(story, cluster, options.install and options.install.resolve())
        except StoryFailed as exc:
            print(f"error: {exc}", file=sys.stderr)
            for log in folder.glob("*.log"):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
            return 1
        finally:
            story.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
