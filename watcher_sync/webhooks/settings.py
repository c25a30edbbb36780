# SPDX-License-Identifier: Apache-2.0
"""What a planner of deliveries is given: options, and the sources of time, chance and ids."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import msgspec


class DeliverySettings(msgspec.Struct, frozen=True):
    """Options of ``[outlet_webhook]``."""

    max_body_bytes: int = 1_048_576
    suspend_after: float = 432_000.0
    suspend_after_failures: int = 0


class Clock(msgspec.Struct, frozen=True):
    """The sources of time, chance and ids."""

    now: Callable[[], datetime.datetime]
    """Aware UTC."""
    monotonic: Callable[[], float]
    random: Callable[[], float]
    new_id: Callable[[], str]
    """A new ``webhook-id``."""
