# SPDX-License-Identifier: Apache-2.0
"""The figures of the gaps are of one moment, and their log line is written before they change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from watcher_sync.extensions.dcm.source import discards
from watcher_sync.extensions.openstack.source.rabbitmq_stream import queue as stream
from watcher_sync.sources.base import Gaps


def test_what_a_reader_took_does_not_change() -> None:
    gaps = Gaps()
    gaps.add("offsets 5 to 9", 5)
    taken = gaps.total
    gaps.add("offsets 20 to 21", 2)
    assert (taken.count, taken.lost, taken.note) == (1, 5, "offsets 5 to 9")
    assert (gaps.total.count, gaps.total.lost, gaps.total.note) == (2, 7, "offsets 20 to 21")


def of_rabbitmq(gaps: Gaps) -> Callable[[], None]:
    queue = cast(Any, stream.StreamQueue.__new__(stream.StreamQueue))
    queue.gaps, queue._source = gaps, "nova"
    return lambda: queue._report("removed", 3)


def of_jetstream(gaps: Gaps) -> Callable[[], None]:
    return lambda: discards.Discards("dcm", "s", gaps).report("removed", 3)


@pytest.mark.parametrize("make", [of_rabbitmq, of_jetstream])
def test_the_log_line_of_a_gap_comes_before_its_figures(
    make: Callable[[Gaps], Callable[[], None]], caplog: pytest.LogCaptureFixture
) -> None:
    gaps = Gaps()
    counts: list[int] = []

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            counts.append(gaps.total.count)

    report = make(gaps)
    handler = Counting()
    logging.getLogger().addHandler(handler)
    try:
        with caplog.at_level(logging.WARNING):
            report()
    finally:
        logging.getLogger().removeHandler(handler)
    assert counts == [0]
    assert gaps.total.count == 1
