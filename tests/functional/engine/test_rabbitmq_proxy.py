# SPDX-License-Identifier: Apache-2.0
"""The network between an engine and RabbitMQ cuts, stalls and half-closes connections."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from tests.faulty_proxy import FaultPlan, FaultyProxy
from tests.functional.engine.driving import Installation, Line
from tests.functional.engine.rabbitmq_rounds import run_through_faults

FAULTS = 3
"""``tests/faults`` has a hundred."""


def test_connections_that_break_at_random_bytes_leave_the_model_as_the_truth(
    install: Callable[..., Installation], line: Callable[[str], Line], sqlite_url: str, figure: Callable[[str], None]
) -> None:
    site = install(sqlite_url, engine__enabled_sources="nova", engine__batch_size=40)
    nova = line("nova")
    with FaultyProxy(urlsplit(nova.url).port or 5672, FaultPlan(2, bytes_up=(0, 1_500))) as proxy:
        run_through_faults(site, nova, proxy, faults=FAULTS, figure=figure)
