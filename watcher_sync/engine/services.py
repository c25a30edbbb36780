# SPDX-License-Identifier: Apache-2.0
"""The interface of background services, which run only while their engine leads.

The engine starts its services after the sources. At the end of its lead it first calls ``begin_stop`` on each
service. Then it drains the batches in hand, and finally it waits up to a second for each service to end.
A service that has not ended by then is abandoned.

The engine's lease does not protect the writes of a service. A service therefore writes only through commits that
any process may make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from watcher_sync.commit.evaluation import Evaluator

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class BackgroundService(Protocol):
    """Started and stopped by the engine's thread each time the engine begins and ceases to lead."""

    title: str
    """The heading of its section in the guru meditation report."""

    def start(self) -> None:
        """Begin to work; returns at once and does not raise."""

    def begin_stop(self) -> None:
        """Begin no further work; returns at once and does not raise."""

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the work in progress."""

    def collect(self) -> Iterable[Metric]:
        """The current Prometheus metrics. Any thread may call it, also while the service is stopped."""

    def report(self) -> Mapping[str, Any]:
        """The current state for an operator. Any thread may call it, also while the service is stopped."""


class EvaluationService(BackgroundService, Evaluator, Protocol):
    """An evaluator of the commit cycle, which the engine starts and stops with its background services."""


@runtime_checkable
class Reloadable(Protocol):
    """A background service that has something to do after a SIGHUP."""

    def reload(self) -> None:
        """Apply changed options and files; returns at once and does not raise."""


@runtime_checkable
class HasReadiness(Protocol):
    """A background service without which its engine may not be ready."""

    def not_ready(self) -> Mapping[str, str]:
        """Return check -> why the engine is not ready; an empty text for a check that passes.

        Any thread may call it. It reads memory only.
        """


@runtime_checkable
class HasSourceNotes(Protocol):
    """A background service that knows something about sources, beside their own state."""

    def source_notes(self) -> Mapping[str, str]:
        """Return source -> a text for operators. Any thread may call it. It reads memory only."""
