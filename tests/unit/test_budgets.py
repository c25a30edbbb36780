# SPDX-License-Identifier: Apache-2.0
"""No walk costs more calls, or enters more modules, than it did.

A change that needs more raises the number here, and says why. A change that needs less lowers it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.budgets import described, lines_of, walks
from tests.tracing import Walk

PAGE = Path(__file__).parents[2] / "doc/source/contributor/architecture.rst"

BUDGETS = {
    "instance.update": (193, 42),
    "DCM event": (201, 42),
    "pod of no instance": (235, 40),
    "pod of a VNF instance": (391, 49),
    "GET /v1/instances": (83, 18),
    "webhook delivery": (106, 13),
    "gRPC watch event": (45, 8),
}
"""Walk -> calls of functions of watcher_sync, and distinct modules."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Walk]]:
    """The walks. A test before this one may have configured logging, and a log line costs calls."""
    logging.disable(logging.INFO)
    yield walks(tmp_path_factory.mktemp("walks"))
    logging.disable(logging.NOTSET)


def test_each_walk_keeps_within_its_calls_and_modules(found: dict[str, Walk]):
    assert found.keys() == BUDGETS.keys()
    over = [
        f"{name}: {walk.count()} calls in {len(walk.modules())} modules, the budget is {calls} in {places}; "
        f"most called: {described(walk)}"
        for name, walk in found.items()
        for calls, places in [BUDGETS[name]]
        if walk.count() > calls or len(walk.modules()) > places
    ]
    assert not over, "\n".join(over)


def test_the_page_of_the_architecture_shows_each_walk_and_its_limits(found: dict[str, Walk]):
    """``python -m tests.budgets`` prints the walks."""
    page = PAGE.read_text()
    missing = [line for name, walk in found.items() for line in lines_of(name, walk) if f"    {line}\n" not in page]
    limits = [f"{name:<26}{calls:>7}{places:>10}" for name, (calls, places) in BUDGETS.items()]
    assert [*missing, *(line for line in limits if f"{line}\n" not in page)] == []
