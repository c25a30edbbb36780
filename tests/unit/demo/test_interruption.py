# SPDX-License-Identifier: Apache-2.0
"""The user ends the demo with its proof, and only a third Ctrl-C ends it at once."""

from __future__ import annotations

import signal

import pytest

from watcher_sync.demo.limits import until_interrupted
from watcher_sync.exceptions import Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_simulation(number: signal.Signals) -> None:
    with until_interrupted() as interrupted:
        assert not interrupted.is_set()
        signal.raise_signal(number)
        assert interrupted.is_set()


def test_neither_a_second_ctrl_c_nor_a_repeated_hangup_takes_the_proof_away_and_a_third_ctrl_c_does() -> None:
    with until_interrupted():
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
