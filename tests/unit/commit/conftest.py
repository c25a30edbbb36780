# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the engine's tests: a store over an SQLite file, and an engine over it."""

from __future__ import annotations

from tests.unit.engine import conftest as engine

conf = engine.conf
store = engine.store
run = engine.run
