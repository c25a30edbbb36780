# SPDX-License-Identifier: Apache-2.0
"""No control character of others reaches a log or a terminal as it is."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import subprocess
import sys

import msgspec
import pytest
import requests

from tests.unit.api import conftest as api
from tests.unit.client import conftest as clients
from tests.waiting import deadline
from watcher_sync.client import shell
from watcher_sync.events import Event
from watcher_sync.storage.stored.stored_events import RefusedEvent
from watcher_sync.storage.writing.commits import Commit

conf = api.conf
store = api.store
application = api.application
url = clients.url

FORGED = "2026-01-01 00:00:00.000 1 INFO watcher_sync.engine [-] all is well"
HOSTILE = f"a\x1b]0;owned\x07\x1b[2Jb\u202ec\u2066d\x9b31me\x85f\u2028g\r\n{FORGED}"
UNSAFE = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u2028\u2029\u202a\u202b\u202c\u202d\u202e",
          *"\u2066\u2067\u2068\u2069"]  # fmt: skip

LOGGING = """
import sys
from watcher_sync.assembly import process
process.prepare()
conf = process.make_conf(sys.argv[1:], prog="watcher-sync-engine")
from oslo_log import log as logging
LOG = logging.getLogger("watcher_sync.test")
hostile = sys.stdin.read()
LOG.warning("source %s: %s", "nova", hostile)
LOG.error(hostile)
try:
    raise ValueError(hostile)
except ValueError:
    LOG.exception("%s failed", hostile)
import logging as plain
plain.getLogger("some.library").warning(hostile)
process.run(lambda argv: (_ for _ in ()).throw(process.ConfigError(hostile)), [])
"""


def unsafe_in(text, allowed="\n\t"):
    return [character for character in UNSAFE if character in text.replace("\r\n", "") and character not in allowed]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["default", "use_json", "log_config_append"])
def test_no_log_line_is_forged_and_none_has_a_control_character(tmp_path, form):
    config = tmp_path / "ws.conf"
    lines = {"default": "", "use_json": "use_json = true", "log_config_append": f"log_config_append = {tmp_path}/log"}
    config.write_text(f"[DEFAULT]\n{lines[form]}\n")
    (tmp_path / "log").write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=h\n[formatters]\nkeys=f\n[logger_root]\nlevel=INFO\nhandlers=h\n"
        "[handler_h]\nclass=StreamHandler\nargs=(sys.stderr,)\nformatter=f\n"
        "[formatter_f]\nformat=%(name)s %(message)s\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", LOGGING, "--config-file", str(config)],
        input=HOSTILE.encode("utf-8"),
        capture_output=True,
        timeout=deadline(60),
        check=False,
    )
    text = (done.stdout + done.stderr).decode("utf-8")
    assert text.count("owned") >= 5, text
    assert unsafe_in(text) == []
    assert not [line for line in text.splitlines() if line.startswith(FORGED[:20]) and " INFO " in line[:60]], text


class Terminal:
    """Runs a command line of the client on a terminal."""

    def __init__(self, url, monkeypatch):
        self._url, self._monkeypatch = url, monkeypatch

    def run(self, *words):
        master, slave = pty.openpty()
        stream = os.fdopen(slave, "w", encoding="utf-8", newline="\n")
        with self._monkeypatch.context() as patched, contextlib.suppress(SystemExit):
            patched.setattr(sys, "stdout", stream)
            patched.setattr(sys, "stderr", stream)
            patched.setenv("COLUMNS", "200")
            shell.run(["--endpoint", self._url, *words])
        stream.flush()
        os.set_blocking(master, False)
        found = b""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(master, 65536):
                found += chunk
        stream.close()
        os.close(master)
        logging.getLogger().handlers[:] = []
        # The terminal's own driver makes carriage returns.
        return found.decode("utf-8").replace("\r\n", "\n")


@pytest.fixture
def terminal(url, monkeypatch):
    return Terminal(url, monkeypatch)


@pytest.fixture
def hostile(store):
    """A quarantined event and an entity with hostile names."""
    event = Event(id=HOSTILE, type=HOSTILE[:40], source="nova", origin=HOSTILE, subject=HOSTILE, data=b"{}")
    store.commit(Commit(generation=0, quarantined=[RefusedEvent(event=event, reason=HOSTILE, detail=HOSTILE)]))


def register(url):
    body = {"id": "s1", "service_type": "vm", "instance_name": HOSTILE.replace("\r\n", " ")}
    answer = requests.post(f"{url}/v1/service_type_instances", json=body, timeout=deadline(20))
    assert answer.status_code == 201, answer.text


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("form", ["table", "value", "csv", "json", "yaml"])
def test_the_client_writes_no_control_character_of_others_to_a_terminal(terminal, url, form):
    register(url)
    for words in (
        ("quarantine", "list", "-f", form),
        ("entity", "list", "service_type_instance", "-f", form),
        ("entity", "history", "list", "service_type_instance", "s1", "-f", form),
        *([("event", "tail", "-f", form)] if form not in ("value", "table") else []),
    ):
        text = terminal.run(*words)
        # A table says of a long change only that it is one.
        assert "owned" in text or ("history" in words and form == "table" and " changed" in text), (words, text)
        assert unsafe_in(text) == [], (words, text)
        if form == "json":
            [msgspec.json.decode(line) for line in text.splitlines()] if "tail" in words else json.loads(text)


@pytest.mark.usefixtures("hostile")
def test_an_error_of_the_client_and_a_picture_of_top_have_no_control_character_of_others(terminal, url):
    register(url)
    for words in (("entity", "show", "instance", HOSTILE.replace("\r\n", "")), ("quarantine", "show", "1")):
        assert unsafe_in(terminal.run(*words)) == []
    text = terminal.run("top", "--once")
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert not {"\u202e", "\u2066", "\x9b", "\x85"} & set(text)


def test_what_a_program_reads_is_unchanged(url, capsys, store):
    register(url)
    assert shell.run(["--endpoint", url, "entity", "show", "service_type_instance", "s1", "-f", "value"]) == 0
    assert "\x1b]0;owned" in capsys.readouterr().out
