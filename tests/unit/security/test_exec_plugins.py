# SPDX-License-Identifier: Apache-2.0
"""The program that a kubeconfig names under ``exec``: its time limit, its environment, its end, and its credentials."""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import deadline, wait_until
from watcher_sync.extensions.kubernetes.source import credentials
from watcher_sync.extensions.kubernetes.source.connection import ApiConnection, TransportError
from watcher_sync.extensions.kubernetes.source.credentials import Access
from watcher_sync.extensions.kubernetes.source.exec_credential import ExecSettings
from watcher_sync.testing.kubernetes import KubernetesServer

_V1 = "client.authentication.k8s.io/v1"


class _Plugin:
    """A program in Python that appends a line to ``runs`` each time."""

    def __init__(self, folder: Path, body: str) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.path = folder / "plugin"
        self.path.write_text(f"#!{sys.executable}\nimport json, os, sys\nfolder = {str(folder)!r}\n{_COUNT}\n{body}\n")
        self.path.chmod(0o755)

    @property
    def count(self) -> int:
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


_COUNT = 'open(folder + "/runs", "a").write("run\\n")'


def _answer(token: str = "s3cret", **status: Any) -> str:
    document = {"apiVersion": _V1, "kind": "ExecCredential", "status": {"token": token, **status}}
    return f"print({json.dumps(document)!r})"


def _connection(
    server: KubernetesServer, plugin: _Plugin, *, settings: ExecSettings | None = None, **entry: Any
) -> ApiConnection:
    document = yaml.safe_load(Path(server.kubeconfig(plugin.folder / "kubeconfig")).read_text())
    document["users"][0]["user"] = {"exec": {"apiVersion": _V1, "command": str(plugin.path), **entry}}
    (plugin.folder / "kubeconfig").write_text(yaml.safe_dump(document))
    settings = settings or ExecSettings(timeout=deadline(60.0))
    access = Access(kubeconfig=str(plugin.folder / "kubeconfig"), exec_settings=settings)
    return ApiConnection(access, connect_timeout=30.0, read_timeout=30.0)


@pytest.fixture
def server():
    with KubernetesServer(token="s3cret") as running:
        yield running


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


_HANGS = """
child = os.fork()
if child == 0:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(folder + "/child", "w").write(str(os.getpid()))
import time
time.sleep(600)
"""


@pytest.mark.slow
def test_a_plugin_that_hangs_ends_with_its_children_at_the_time_limit(server, tmp_path):
    plugin = _Plugin(tmp_path, _HANGS)
    connection = _connection(server, plugin, settings=ExecSettings(timeout=deadline(4.0)))
    with pytest.raises(TransportError, match=r"exec plugin .*plugin: did not end within \d"):
        connection.read("/version")
    pid = int((tmp_path / "child").read_text())
    wait_until(lambda: not _is_alive(pid))


def test_a_child_that_a_plugin_leaves_behind_ends_with_it(server, tmp_path):
    body = f"""
child = os.fork()
if child == 0:
    for number in (0, 1, 2):
        os.close(number)
    open(folder + "/child", "w").write(str(os.getpid()))
    import time
    time.sleep(600)
while not os.path.exists(folder + "/child") or not open(folder + "/child").read():
    pass
{_answer()}
"""
    assert _connection(server, _Plugin(tmp_path, body)).read("/version")
    pid = int((tmp_path / "child").read_text())
    wait_until(lambda: not _is_alive(pid))


@pytest.mark.slow
def test_threads_that_wait_for_a_hanging_plugin_share_its_failure(server, tmp_path):
    plugin = _Plugin(tmp_path, _HANGS)
    connection = _connection(server, plugin, settings=ExecSettings(timeout=deadline(4.0)))
    failures: list[str] = []
    together = threading.Barrier(4)

    def read() -> None:
        together.wait()
        with pytest.raises(TransportError) as caught:
            connection.read("/version")
        failures.append(str(caught.value))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    assert len(failures) == 4
    assert plugin.count == 1


def test_a_plugin_gets_a_small_environment_and_no_input(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OS_PASSWORD", "of the engine")
    monkeypatch.setenv("AWS_PROFILE", "edge")
    body = f"""
found = dict(os.environ)
found["stdin"] = sys.stdin.read()
json.dump(found, open(folder + "/environment", "w"))
{_answer()}
"""
    settings = ExecSettings(timeout=60.0, environment=("AWS_PROFILE", "NOT_SET"))  # wait: an option
    connection = _connection(
        server, _Plugin(tmp_path, body), settings=settings, env=[{"name": "REGION", "value": "north"}],
        provideClusterInfo=True,
    )  # fmt: skip
    assert connection.read("/version")
    found = json.loads((tmp_path / "environment").read_text())
    found.pop("LC_CTYPE", None)  # the interpreter of the plugin sets it
    assert set(found) == {"PATH", "HOME", "AWS_PROFILE", "REGION", "KUBERNETES_EXEC_INFO", "stdin"}
    assert found["REGION"] == "north"
    assert found["stdin"] == ""
    assert json.loads(found["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": _V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": server.url}},
    }


def test_credentials_are_used_until_they_expire_and_then_renewed(server, tmp_path, monkeypatch):
    class Clock(datetime.datetime):
        ahead = datetime.timedelta()

        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.now(tz) + cls.ahead

    shown = types.SimpleNamespace(datetime=Clock, timedelta=datetime.timedelta, UTC=datetime.UTC)
    monkeypatch.setattr(credentials, "datetime", shown)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    plugin = _Plugin(tmp_path, _answer(expirationTimestamp=later.isoformat()))
    connection = _connection(server, plugin)
    for _ in range(5):
        assert connection.read("/version")
    assert plugin.count == 1
    Clock.ahead = datetime.timedelta(hours=1)
    assert connection.read("/version")
    assert plugin.count >= 2


def test_credentials_without_an_expiry_are_used_until_the_server_refuses_them(server, tmp_path):
    plugin = _Plugin(
        tmp_path, f"token = open(folder + '/token').read()\n{_answer('TOKEN')[:-1]}.replace('TOKEN', token))"
    )
    (tmp_path / "token").write_text("s3cret")
    connection = _connection(server, plugin)
    for _ in range(3):
        assert connection.read("/version")
    assert plugin.count == 1
    server.token = "renewed"
    (tmp_path / "token").write_text("renewed")
    assert connection.read("/version")
    assert plugin.count == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("while True: os.write(1, b'x' * 65536)", "wrote more than"),
        (
            "print('sensitive'); sys.exit('no\\x1b[31m session\\nsecond line')",
            r"ended with status 1: no \[31m session$",
        ),
        ("print('{\"sensitive\": ')", "its output is no ExecCredential"),
        ("print('{\"sensitive\": ' + 200000 * '[')", "its output is no ExecCredential"),
        (_answer().replace("ExecCredential", "Other"), "its output is no ExecCredential of"),
        (_answer("").replace("s3cret", ""), "has neither token nor clientCertificateData"),
        (_answer("", clientCertificateData="sensitive"), "must have both"),
        (_answer(expirationTimestamp="sensitive"), "its output is no ExecCredential"),
    ],
)
def test_a_wrong_answer_is_refused_without_being_repeated(server, tmp_path, body, message):
    with pytest.raises(TransportError, match=message) as caught:
        _connection(server, _Plugin(tmp_path, body)).read("/version")
    assert "sensitive" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "second line" not in str(caught.value)


def test_what_a_plugin_says_beyond_the_bound_is_read_and_discarded(server, tmp_path):
    body = f"sys.stderr.write('x' * 1_000_000)\n{_answer()}"
    assert _connection(server, _Plugin(tmp_path, body)).read("/version")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"command": "./missing", "installHint": "install it"},
            "cannot be started: No such file or directory; install it",
        ),
        ({"apiVersion": "client.authentication.k8s.io/v9"}, "apiVersion must be one of"),
        ({"interactiveMode": "Always"}, "interactiveMode Always needs a terminal"),
        ({"env": "PATH=/"}, r"the user 'fake': Expected `array \| null`, got `str` - at `\$.exec.env`"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_and_named(server, tmp_path, entry, message):
    with pytest.raises(TransportError, match=message):
        _connection(server, _Plugin(tmp_path, _answer()), **entry).read("/version")


def test_a_relative_command_is_found_beside_the_kubeconfig(server, tmp_path):
    plugin = _Plugin(tmp_path, _answer())
    assert _connection(server, plugin, command=f".{os.sep}plugin").read("/version")
