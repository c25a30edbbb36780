# SPDX-License-Identifier: Apache-2.0
"""For all tests: a busy machine is no reason for a property test to fail, and child processes take SIGINT.

A background job inherits that SIGINT is ignored, and so would the processes that the tests interrupt.

gRPC has no part in a fork. Its handlers can crash the child of a process whose threads use it.
"""

from __future__ import annotations

import os
import signal

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # read when gRPC is imported

from hypothesis import HealthCheck, settings

settings.register_profile("watcher_sync", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("watcher_sync")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
