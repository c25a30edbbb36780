# SPDX-License-Identifier: Apache-2.0
"""The user ends the demo with its proof, and only a third Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.waiting import deadline
from watcher_sync.demo.limits import until_interrupted
from watcher_sync.exceptions import Interrupted


@pytest.fixture(autouse=True)
def _hangup_is_not_ignored() -> Iterator[None]:
    """``nohup`` has the run of the tests ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_simulation(number: signal.Signals) -> None:
    with until_interrupted() as interruption:
        assert not interruption.came
        signal.raise_signal(number)
        assert interruption.came


def test_neither_a_second_ctrl_c_nor_a_repeated_hangup_ends_the_proof_but_a_third_ctrl_c_does() -> None:
    with until_interrupted():
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_within_the_handler_of_another_one_does_not_wait_for_it() -> None:
    """A closed terminal and its shell send two. The second one comes at each call that the first handler makes."""
    script = """
        import signal
        import sys

        from watcher_sync.demo.limits import until_interrupted

        def again(*_):
            signal.raise_signal(signal.SIGHUP)
            return again

        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with until_interrupted():
            sys.settrace(again)
            signal.raise_signal(signal.SIGTERM)
            sys.settrace(None)
        """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline(30), check=False)
    assert (done.returncode, done.stderr) == (0, "")
