# SPDX-License-Identifier: Apache-2.0
"""For all tests: a busy machine is no reason for a property test to fail, and child processes take SIGINT.

A background job inherits that SIGINT is ignored, and so would the processes that the tests interrupt.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("watcher_sync", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("watcher_sync")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
