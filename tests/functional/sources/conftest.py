# SPDX-License-Identifier: Apache-2.0
"""A publisher of notifications, and installations as for the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.engine.conftest import install as install
from tests.functional.sources.listening import Publisher, publishing


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as made:
        yield made
