# SPDX-License-Identifier: Apache-2.0
"""No walk costs more calls, or enters more modules, than it did.

A change that needs more raises the number here, and says why. A change that needs less lowers it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.budgets import described, modules, walks

BUDGETS = {
    "instance.update": (194, 46),
    "DCM event": (204, 46),
    "pod of no instance": (238, 43),
    "pod of a VNF instance": (353, 51),
    "GET /v1/instances": (79, 20),
    "webhook delivery": (221, 18),
    "gRPC watch event": (48, 9),
}
"""Walk -> calls of functions of watcher_sync, and distinct modules."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """A test before this one may have configured logging, and a log line costs calls."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("quiet")
def test_each_walk_keeps_within_its_calls_and_modules(tmp_path: Path):
    found = walks(tmp_path)
    assert found.keys() == BUDGETS.keys()
    over = [
        f"{name}: {walk.count()} calls in {modules(walk)} modules, the budget is {calls} in {places}; "
        f"most called: {described(walk)}"
        for name, walk in found.items()
        for calls, places in [BUDGETS[name]]
        if walk.count() > calls or modules(walk) > places
    ]
    assert not over, "\n".join(over)
