# SPDX-License-Identifier: Apache-2.0
"""As in our executables: native threads, chosen before anything of oslo.messaging is imported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.functional.engine.conftest import install as install  # noqa: E402
from tests.functional.sources.listening import Publisher, publishing  # noqa: E402


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as made:
        yield made
