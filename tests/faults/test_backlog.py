# SPDX-License-Identifier: Apache-2.0
"""Half a million events wait while no engine runs. The engine applies them in order, and in bounded memory.

``WATCHER_SYNC_TEST_BACKLOG`` changes the number. The memory is compared with that of an engine which starts after them
and finds the same model, and nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import pytest

from tests.functional.engine.backlog import Backlog

EVENTS: Final = int(os.environ.get("WATCHER_SYNC_TEST_BACKLOG", "500000"))
MOST: Final = 1.3


@pytest.mark.timeout(600 + EVENTS // 200)
def test_half_a_million_events_that_waited_are_applied_in_order_and_in_bounded_memory(
    backlog: Backlog, figure: Callable[[str], None]
) -> None:
    backlog.site.environment["PYTHONHASHSEED"] = "0"  # so the engine is not forked, and shares no memory with the tests
    backlog.publish(EVENTS)
    seconds, most = backlog.consume(EVENTS / 1_000 + 60)
    idle = backlog.idle_memory()
    figure(
        f"{EVENTS:,} events in {seconds:.1f} s, {EVENTS / seconds:,.0f} events/s; "
        f"{most:.0f} MB at most, {idle:.0f} MB idle, ratio {most / idle:.2f}"
    )
    backlog.check()
    assert most <= MOST * idle
