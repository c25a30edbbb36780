# SPDX-License-Identifier: Apache-2.0
"""One cloud for all tests of this folder, and an installation that follows it completely.

A test of other software, such as a collector, takes ``cloud`` and ``followed``. Its account is ``cloud.openrc`` or
``cloud.login``, and ``cloud.site.url("nova")`` is an endpoint. The engine of ``followed`` runs.

Without MariaDB or RabbitMQ the run fails and names what is missing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from oslo_service import backend

from tests.real_nova.cloud import Cloud
from tests.real_nova.installation import ensure_programs
from tests.real_nova.modes import BOTH, Follower

# As the executables do it.
backend.init_backend(backend.BackendType.THREADING)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    """A running cloud without servers. A run that is terminated removes it, too."""
    signal.signal(signal.SIGTERM, _interrupted)
    made = Cloud(ensure_programs())
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def followed(cloud: Cloud, tmp_path: Path) -> Iterator[Follower]:
    """An installation with notifications and reconciliation. Its engine runs, and the first comparison is done."""
    follower = Follower(BOTH, cloud, tmp_path / "followed", name="followed")
    try:
        follower.bind(cloud)
        follower.start()
        follower.reconcile()
        yield follower
    finally:
        follower.stop()
