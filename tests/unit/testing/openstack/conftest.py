# SPDX-License-Identifier: Apache-2.0
"""A fake cloud with a few hosts and servers, and openstacksdk as its client."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import openstack
import pytest
from openstack.connection import Connection

from watcher_sync.testing.openstack import FakeOpenStack, Inventory

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime.datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += datetime.timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inventory(clock: Clock) -> Inventory:
    """Three hosts, no servers."""
    inventory = Inventory(clock=clock)
    for i in range(3):
        inventory.add_host(f"compute-{i}", node=f"compute-{i}.example.org")
    return inventory


@pytest.fixture
def cloud(inventory: Inventory) -> Iterator[FakeOpenStack]:
    with FakeOpenStack(inventory, max_limit=10) as cloud:
        yield cloud


@pytest.fixture
def connect(cloud: FakeOpenStack) -> Iterator[Callable[..., Connection]]:
    """Connects as ``admin``, or as another user, and closes at the end."""
    connections: list[Connection] = []

    def connect(user: str = "admin", **options: Any) -> Connection:
        connections.append(openstack.connect(**cloud.connect_options(user, **options)))
        return connections[-1]

    yield connect
    for connection in connections:
        connection.close()


@pytest.fixture
def connection(connect: Callable[..., Connection]) -> Connection:
    return connect()
