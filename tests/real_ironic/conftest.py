# SPDX-License-Identifier: Apache-2.0
"""One Ironic for all tests of this folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from oslo_service import backend

from tests.real_ironic.cloud import Cloud, programs

# As the executables do it.
backend.init_backend(backend.BackendType.THREADING)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    """A running Ironic without nodes. A run that is terminated removes it, too."""
    signal.signal(signal.SIGTERM, _interrupted)
    made = Cloud(programs())
    try:
        yield made.start()
    finally:
        made.stop()
