# SPDX-License-Identifier: Apache-2.0
"""Worker processes of a real manager: the log of their ends, and the signals of the processes that they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import deadline

PROGRAM = """
import logging, multiprocessing, os, pathlib, signal, subprocess, sys

import cotyledon
from watcher_sync.assembly import process

SHOW = "import signal; print([n.name for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())], flush=True)"
FIRST = pathlib.Path(sys.argv[1])
logging.basicConfig(stream=sys.stderr)


class Worker(cotyledon.Service):
    def __init__(self, worker_id):
        super().__init__(worker_id)
        process.accept_signals()

    def run(self):
        if FIRST.exists():
            os.kill(os.getppid(), signal.SIGTERM)
            return
        FIRST.touch()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        child = multiprocessing.get_context("fork").Process(target=exec, args=(SHOW,))
        child.start()
        child.join()
        subprocess.run([sys.executable, "-c", SHOW], preexec_fn=lambda: None, check=True)
        exec(SHOW)
        os.kill(os.getpid(), 40)


multiprocessing.set_start_method("forkserver")  # the default since Python 3.14
manager = process.make_manager(60)
manager.add(Worker, workers=1)
process.run_workers(manager, lambda: "one event")
"""


@pytest.fixture
def ended(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A manager whose first worker shows which signals its children have blocked, and ends by a real-time signal."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "first")],
        capture_output=True,
        text=True,
        check=True,
        timeout=deadline(60),
    )


def test_a_process_that_a_worker_starts_has_the_signal_mask_of_the_worker(
    ended: subprocess.CompletedProcess[str],
) -> None:
    assert ended.stdout.splitlines() == ["['SIGHUP']"] * 3, ended.stderr


def test_a_worker_that_a_signal_without_a_name_ended_is_in_the_log(ended: subprocess.CompletedProcess[str]) -> None:
    assert "was ended by signal 40 and is started again; in hand: one event" in ended.stderr
