# SPDX-License-Identifier: Apache-2.0
"""Nova's own samples, where they are at hand."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest


def _folder() -> pathlib.Path:
    given = os.environ.get("WATCHER_SYNC_SAMPLES")
    if given:
        return pathlib.Path(given)
    return pathlib.Path(__file__).parents[4] / "shared" / "data" / "nova_notifications"


@pytest.fixture(scope="session")
def nova_samples() -> list[dict[str, Any]]:
    paths = sorted(_folder().glob("*.json"))
    if not paths:
        pytest.skip("no Nova samples; WATCHER_SYNC_SAMPLES names their folder")
    return [json.loads(path.read_text()) for path in paths]
