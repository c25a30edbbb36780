# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the engine's tests."""

from __future__ import annotations

from tests.functional.engine.conftest import install as install
from tests.functional.engine.conftest import line as line
