# SPDX-License-Identifier: Apache-2.0
"""SIGINT ends each executable, also where the process inherits that the signal is ignored."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import deadline

BIN = Path(sys.executable).parent

COMMANDS = (
    ("watcher-sync", "--endpoint", "http://127.0.0.1:{port}", "entity", "list", "pod"),
    ("watcher-sync-api", "--config-file", "{config}"),
    ("watcher-sync-engine", "--config-file", "{config}"),
    ("watcher-sync-manage", "--config-file", "{config}", "db_sync"),
    ("watcher-sync-outlet", "--config-file", "{config}"),
    ("watcher-sync-status", "--config-file", "{config}", "upgrade", "check"),
)

_USUAL = ("watcher-sync", "watcher-sync-engine")
"""All main functions accept the signal in the same way."""


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=() if each[0] in _USUAL else pytest.mark.rare, id=each[0]) for each in COMMANDS],
)
def test_a_process_that_inherits_sigint_as_ignored_can_be_interrupted(command: tuple[str, ...], tmp_path: Path) -> None:
    """The command waits for a server that accepts its connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(deadline(60))
        port = silent.getsockname()[1]
        config = tmp_path / "watcher-sync.conf"
        config.write_text(
            f"[DEFAULT]\nstate_path = {tmp_path}\n"
            f"[database]\nconnection = postgresql+psycopg://root:x@127.0.0.1:{port}/test\n"
            "[engine]\nenabled_sources = nova\n[source_nova]\ndriver = rabbitmq\n"
            "transport_url = rabbit://guest:guest@127.0.0.1:1/\n"
            f"[api]\nauth_strategy = noauth\nport = 0\n[outlet_webhook]\nsecret_keys = {'A' * 43}=\n"
        )
        program, *arguments = (word.format(port=port, config=config) for word in command)
        process = subprocess.Popen(
            [BIN / program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                output, _ = process.communicate(timeout=deadline(60))
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 130, output
    assert "Traceback" not in output
