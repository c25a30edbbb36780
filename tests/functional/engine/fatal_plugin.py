# SPDX-License-Identifier: Apache-2.0
"""A handler that is installed beside the package, as a plugin is, and fails in each way that Python has.

An event ``fatal.good`` creates a compute node. Every other one fails as the part after the dot says. The
handler of ``fatal.wait`` never returns, and makes the file ``waiting`` beside the module. A pod whose name
begins with ``fatal-`` fails in the same ways.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

MODULE: Final = """
import asyncio
import ctypes
import os
import pathlib
import signal
import threading

from watcher_sync.handlers.base import Handler
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.model.changes import Upsert, Version


class Unprintable(BaseException):
    def __str__(self):
        raise SystemExit("not even this")


WAYS = {
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "Unprintable": Unprintable,
}


def fail(how):
    if how in WAYS:
        raise WAYS[how]()
    if how == "SIGABRT":
        os.abort()
    if how == "SIGSEGV":
        ctypes.string_at(0)
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    if how == "wait":
        pathlib.Path(__file__).with_name("waiting").touch()
        threading.Event().wait()


class Fatal(Handler):
    events = {"fatal.*": "handle"}
    drivers = ("rabbitmq", "rabbitmq_stream", "nats_jetstream", "oslo_messaging")

    def handle(self, event, view):
        fail(event.type.partition(".")[2])
        yield Upsert("compute_node", event.id, Version("1"), {"service": {"status": "enabled"}})


def on_pod(self, event, view, original=KubernetesHandler.on_pod):
    if event.subject.startswith("fatal-"):
        fail({"sigsegv": "SIGSEGV"}.get(event.subject.split("-")[1], event.subject.split("-")[1]))
    return original(self, event, view)


KubernetesHandler.on_pod = on_pod
"""

EXCEPTIONS: Final = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Unprintable")
ENDS: Final = ("SIGABRT", "SIGSEGV", "SIGKILL", "exit")


def install(folder: Path) -> dict[str, str]:
    """Install the plugin; the environment that finds it."""
    info = folder / "fatal_plugin_dist-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fatal-plugin-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[watcher_sync.handlers]\nfatal = fatal_plugin_dist:Fatal\n")
    (folder / "fatal_plugin_dist.py").write_text(MODULE)
    return {"PYTHONPATH": str(folder)}


def repair(folder: Path) -> None:
    """Install the next release of the plugin, whose handler of pods never fails."""
    (folder / "fatal_plugin_dist-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fatal-plugin-dist\nVersion: 1.1\n"
    )
    (folder / "fatal_plugin_dist.py").write_text(MODULE.replace("KubernetesHandler.on_pod = on_pod", ""))


def notification(name: str, how: str) -> bytes:
    """A notification of oslo.messaging."""
    document = {
        "message_id": name, "event_type": f"fatal.{how}", "publisher_id": "fatal:1", "priority": "INFO",
        "timestamp": "2026-01-02 03:04:05.000000", "payload": {},
    }  # fmt: skip
    return json.dumps(document).encode()


def cloud_event(name: str, how: str) -> bytes:
    """A CloudEvent."""
    event = {
        "specversion": "1.0", "id": name, "source": "fatal", "type": f"fatal.{how}", "time": "2026-01-02T03:04:05Z",
        "datacontenttype": "application/json", "data": {},
    }  # fmt: skip
    return json.dumps(event).encode()
