# SPDX-License-Identifier: Apache-2.0
"""For all tests: a busy machine is no reason for a property test to fail, and child processes take SIGINT.

What a test changes of its process ends with it, because the next test runs in the same one.

A background job inherits that SIGINT is ignored, and so would the processes that the tests interrupt.

gRPC has no part in a fork. Its handlers can crash the child of a process whose threads use it.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # read when gRPC is imported

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("watcher_sync", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("watcher_sync")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is imported and collected stays until the end, so the garbage collector does not walk it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """What executables set ends with a test that runs one in this process: the umask, and how it logs.

    A handler of a test writes into a stream that ends with the test.
    """
    umask = os.umask(0o022)
    os.umask(umask)
    root = logging.root
    records, level, handlers = logging.getLogRecordFactory(), root.level, list(root.handlers)
    yield
    os.umask(umask)
    logging.setLogRecordFactory(records)
    root.setLevel(level)
    root.handlers[:] = [handler for handler in root.handlers if handler in handlers]
