# SPDX-License-Identifier: Apache-2.0
"""Batches that the engine did not commit are emitted again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.sources import redelivery
from watcher_sync.sources.redelivery import Redelivery


def test_an_unexpected_error_is_logged_and_the_batch_is_emitted_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redelivery, "_RETRY_SECONDS", 0.01)
    errors, done = [RuntimeError("a bug")], threading.Event()

    def emit(_events: Sequence[Event]) -> None:
        if errors:
            raise errors.pop()
        done.set()

    ours = Redelivery("source-edge-redelivery", emit)
    with caplog.at_level(logging.ERROR):
        ours.add([], 0.0)
        assert done.wait(deadline(60))
    ours.begin_stop()
    ours.join(deadline(10))
    (record,) = caplog.records
    assert record.getMessage() == "source-edge-redelivery: a batch could not be emitted, retrying"
