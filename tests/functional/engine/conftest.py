# SPDX-License-Identifier: Apache-2.0
"""Installations on each kind of database, and lines on the broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.conftest import Broker
from tests.functional.engine.backlog import TRANSPORTS, Backlog, DcmBacklog, NovaBacklog
from tests.functional.engine.driving import Installation, Line
from tests.functional.engine.rabbitmq_streams import StreamLine
from tests.functional.sources.jetstream import dcm_of


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Make an installation on a database; its engines are killed when the test ends.

    Each installation has its own folder. In a shared folder, two installations would write to the same log file.
    A test that waits for a line would then find the line of another engine.
    """
    numbers = itertools.count(1)
    with ExitStack() as stack:

        def make(url: str, **options: object) -> Installation:
            named = {name.replace("__", "."): value for name, value in options.items()}
            folder = tmp_path / f"installation-{next(numbers)}"
            folder.mkdir()
            return stack.enter_context(Installation(folder, url, named))

        yield make


@pytest.fixture
def line(broker: Broker) -> Iterator[Callable[[str], Line]]:
    """Make a line on the broker of the test run; it is deleted when the test ends."""
    made: list[Line] = []

    def make(name: str) -> Line:
        made.append(Line(broker.name(name), broker.url))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=TRANSPORTS)
def backlog(
    request: pytest.FixtureRequest, install: Callable[..., Installation], postgresql_url: str
) -> Iterator[Backlog]:
    """An installation, and a transport of each kind in turn on which nothing waits yet."""
    site = install(postgresql_url)
    if request.param == "jetstream":
        server = request.getfixturevalue("own_nats")
        with dcm_of(server.url) as dcm:
            yield DcmBacklog(site, dcm, server.url)
        return
    broker: Broker = request.getfixturevalue("broker")
    name = broker.name("backlog")
    if request.param == "stream":
        stream = StreamLine(name, broker.url, site)
        stream.declare()
        yield NovaBacklog(site, stream)
    else:
        yield NovaBacklog(site, Line(name, broker.url, quorum=request.param == "quorum"))
