# SPDX-License-Identifier: Apache-2.0
"""For all tests: a machine that is busy is no reason for a property test to fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("watcher_sync", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("watcher_sync")
