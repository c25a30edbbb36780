# SPDX-License-Identifier: Apache-2.0
"""Events that waited while no engine ran are applied once and in order.

``tests/faults`` has half a million of them on each transport, and measures the memory.
"""

from __future__ import annotations

from tests.functional.engine.backlog import ENTITIES, Backlog


def test_events_that_waited_for_an_engine_are_applied_once_and_in_order(backlog: Backlog) -> None:
    backlog.publish(2 * ENTITIES)
    backlog.consume(60)
    backlog.check()
