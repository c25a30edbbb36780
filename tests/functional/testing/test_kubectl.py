# SPDX-License-Identifier: Apache-2.0
"""kubectl takes the fake API server for a cluster. The server is a process of its own."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import Deadline, deadline
from watcher_sync.testing.kubernetes.builders import deployment, stateful_set

DEADLINE = 60.0


class Kubectl:
    def __init__(self, path: str, home: Path) -> None:
        self._command = [path, "--kubeconfig", str(home / "kubeconfig")]
        self._home = home

    def __call__(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment(), capture_output=True, text=True, timeout=deadline(180)
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def until(self, condition: Callable[[], bool]) -> None:
        end = Deadline(DEADLINE)
        while not condition():
            assert not end.is_over
            time.sleep(0.05)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments], env=self._environment(), stdout=subprocess.PIPE, text=True
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self._home)}  # its cache of discovery goes there


@pytest.fixture
def kubectl(kubectl_path: str, tmp_path: Path) -> Iterator[Kubectl]:
    command = [sys.executable, "-m", "watcher_sync.testing.kubernetes", "--pods", "3"]
    server = subprocess.Popen(
        [*command, "--kubeconfig", str(tmp_path / "kubeconfig")], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        assert server.stdout.readline().startswith("http://127.0.0.1:")
        yield Kubectl(kubectl_path, tmp_path)
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(deadline(DEADLINE)) == 0
        server.stdout.close()


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def test_get_prints_a_table_and_json(kubectl: Kubectl) -> None:
    heading, *rows = kubectl("get", "pods").splitlines()
    assert heading.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split()[1:4] for row in rows] == [["1/1", "Running", "0"]] * 3
    listed = kubectl.json("get", "deployments,replicasets,nodes,namespaces")
    assert {item["kind"] for item in listed["items"]} == {"Deployment", "ReplicaSet", "Node", "Namespace"}
    name = rows[0].split()[0]
    one = kubectl.json("get", "pod", name)
    assert (one["kind"], one["metadata"]["name"]) == ("Pod", name)
    assert 'pods "absent" not found' in kubectl("get", "pod", "absent", status=1)


def test_create_scale_and_delete_go_all_the_way_to_the_pods(kubectl: Kubectl, tmp_path: Path) -> None:
    def pods() -> list[dict[str, Any]]:
        return list(kubectl.json("get", "pods", "-l", "app in (web,db)")["items"])

    file = written(tmp_path / "objects.json", deployment("web"), stateful_set("db"))
    assert kubectl("create", "-f", file).splitlines() == ["deployment.apps/web created", "statefulset.apps/db created"]
    assert "AlreadyExists" in kubectl("create", "-f", file, status=1)
    kubectl("scale", "deployment", "web", "--replicas=3")
    kubectl("rollout", "status", "deployment", "web", "--timeout=120s")
    kubectl.until(lambda: len(pods()) == 4)
    name = pods()[-1]["metadata"]["name"]
    kubectl("delete", "pod", name)
    kubectl.until(lambda: name not in [pod["metadata"]["name"] for pod in pods()] and len(pods()) == 4)
    kubectl("delete", "-f", file)
    kubectl.until(lambda: not pods())
    assert "NotFound" in kubectl("get", "deployment", "web", status=1)


def test_a_watch_shows_changes_as_they_come(kubectl: Kubectl) -> None:
    watch = kubectl.start("get", "deployment", "vdu0", "--watch", "--output-watch-events", "-o", "json")
    seen: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        assert watch.stdout is not None
        for line in watch.stdout:
            seen.put(json.loads(line))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert seen.get(timeout=deadline(DEADLINE))["type"] == "ADDED"
        kubectl("scale", "deployment", "vdu0", "--replicas=5")
        while (event := seen.get(timeout=deadline(DEADLINE)))["object"].get("status", {}).get("readyReplicas") != 5:
            assert event["type"] == "MODIFIED"
        assert kubectl("delete", "deployment", "vdu0")
        while seen.get(timeout=deadline(DEADLINE))["type"] != "DELETED":
            pass
    finally:
        watch.kill()
        watch.wait()
        reader.join(deadline(DEADLINE))
