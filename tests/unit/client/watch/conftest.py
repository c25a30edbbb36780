# SPDX-License-Identifier: Apache-2.0
"""Fake watch services."""

from __future__ import annotations

import pytest

from watcher_sync.testing.watch.service import FakeWatchService


@pytest.fixture
def service():
    """A service like watcher_sync."""
    with FakeWatchService() as made:
        yield made


@pytest.fixture
def stock():
    """A service without our additions."""
    with FakeWatchService(is_stock=True) as made:
        yield made


@pytest.fixture(params=["ours", "stock"])
def either(request):
    """Both kinds of service, one after the other."""
    with FakeWatchService(is_stock=request.param == "stock") as made:
        yield made
