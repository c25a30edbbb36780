# SPDX-License-Identifier: Apache-2.0
"""Installations with real executables."""

from __future__ import annotations

from tests.functional.engine import conftest as engine

install = engine.install
