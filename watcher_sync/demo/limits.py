# SPDX-License-Identifier: Apache-2.0
"""How long one run of the demo waits, and for what.

All are seconds on an idle reference machine. A slow or busy one has more time (:mod:`watcher_sync.testing.deadlines`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from watcher_sync.exceptions import WatcherSyncError


class Limits(msgspec.Struct, frozen=True):
    """The limits of one run."""

    start: float = 30.0
    """Until the sources are connected, and again until the cloud and the cluster are listed."""
    stop: float = 10.0
    """Until the simulated systems end, and from the last commit until everything is committed."""
    settle: float = 10.0
    """Until the model has all pods and workloads of the cluster."""
    compare: float = 60.0
    """For a comparison of the reconcilers, with its repetitions."""
    catch_up: float = 10.0
    """How long the receiver of webhooks may lag behind the last commit."""
    answer: float = 30.0
    """For an answer of the NATS server or of the demo's own API."""


LIMITS: Final = Limits()
"""Those of the command."""


class DemoFailed(WatcherSyncError):
    """The demo could not be brought to its end."""
