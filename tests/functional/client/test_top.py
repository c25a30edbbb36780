# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync top``: once for scripts, and live on a terminal until q or Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator

import pytest

from tests.functional.client.conftest import BIN, Run, Site, environment
from tests.waiting import PATIENCE_SECONDS, Deadline, deadline


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, *command: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        variables = environment(TERM="xterm-256color")
        del variables["COLUMNS"]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=variables)
        self.text = ""

    def wait_for(self, pattern: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Read until the pattern was written."""
        limit = Deadline(seconds)
        while not re.search(pattern, self.text):
            assert not limit.is_over, f"{pattern!r} did not come: {self.text[-3000:]!r}"
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                self.text += os.read(self.master, 65536).decode(errors="replace")

    def close(self) -> None:
        """Kill what is left."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def top(site: Site) -> Iterator[Terminal]:
    terminal = Terminal(str(BIN / "watcher-sync"), "--endpoint", site.url, "top", "--interval", "0.2")
    yield terminal
    terminal.close()


def test_once_shows_sources_counts_and_changes(site: Site, watcher_sync: Run) -> None:
    done = watcher_sync("top", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    snapshot = site.cycle.model.snapshot()
    for kind in snapshot.kinds:
        assert re.search(rf"{kind} +{len(list(snapshot.dump(kind)))}\b", done.stdout)
    assert re.search(r"edge +disconnected", done.stdout)
    assert re.search(rf"\b{snapshot.generation}\b", done.stdout)


def test_it_shows_what_is_committed_survives_a_restart_of_the_api_and_q_ends_it(site: Site, top: Terminal) -> None:
    top.wait_for("events/s")
    site.commit(site.more(50))
    top.wait_for(rf"seq {site.cycle.model.generation}\b")
    site.stop()
    top.wait_for("Connection refused")
    site.commit(site.more(30))
    site.start()
    top.wait_for(rf"seq {site.cycle.model.generation}\b")
    os.write(top.master, b"q")
    assert top.process.wait(deadline(60)) == 0
    assert termios.tcgetattr(top.slave) == top.before


def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(top: Terminal) -> None:
    top.wait_for("events/s")
    top.process.send_signal(signal.SIGINT)
    assert top.process.wait(deadline(60)) == 0
    assert termios.tcgetattr(top.slave) == top.before
