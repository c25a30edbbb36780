# SPDX-License-Identifier: Apache-2.0
"""One cloud for all tests of this folder.

A test of other software, such as a collector, takes ``cloud``. Its account is ``cloud.openrc`` or ``cloud.login``.
Without MariaDB or RabbitMQ the run fails and names what is missing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from oslo_service import backend

from tests.real_cinder.cloud import Cloud, programs

# As the executables do it.
backend.init_backend(backend.BackendType.THREADING)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    """A running cloud without volumes. A run that is terminated removes it, too."""
    signal.signal(signal.SIGTERM, _interrupted)
    made = Cloud(programs())
    try:
        yield made.start()
    finally:
        made.stop()
