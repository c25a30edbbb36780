# SPDX-License-Identifier: Apache-2.0
"""What else works while an engine leads, and rests while it does not.

The engine knows of a companion only when to start and to stop it, and that it has figures. Companions are
started after the sources and told to stop before the batches in hand are drained; the drain is the time
that they have to end, and a second more. What they have not ended by then is left behind. They
may write only through commits of their own, which any process may make: the lease does not protect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class BackgroundService(Protocol):
    """Started and stopped by the engine's thread, as often as the engine begins and ceases to lead."""

    title: str
    """What its section is called in a report on the engine."""

    def start(self) -> None:
        """Begin; returns at once, does not raise."""

    def begin_stop(self) -> None:
        """Begin nothing more; returns at once, does not raise."""

    def join(self, timeout: float) -> None:
        """Wait so many seconds at most for what is going on."""

    def collect(self) -> Iterable[Metric]:
        """The figures of this moment, for Prometheus. For any thread, whether started or not."""

    def report(self) -> Mapping[str, Any]:
        """What it is doing, for people. For any thread, whether started or not."""
