# SPDX-License-Identifier: Apache-2.0
"""Installations on each kind of database, lines on the broker, and the figures that a run shows at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.conftest import Broker
from tests.functional.engine.driving import Installation, Line

_FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if figures := config.stash.get(_FIGURES, []):
        terminalreporter.section("faults: what was measured")
        for figure in figures:
            terminalreporter.line(figure)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Show a measured figure at the end of the run."""
    return lambda text: request.config.stash[_FIGURES].append(f"{request.node.name}: {text}")


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Make an installation on a database; its engines are killed when the test ends."""
    with ExitStack() as stack:

        def make(url: str, **options: object) -> Installation:
            named = {name.replace("__", "."): value for name, value in options.items()}
            return stack.enter_context(Installation(tmp_path, url, named))

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
