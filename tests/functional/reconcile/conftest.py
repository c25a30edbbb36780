# SPDX-License-Identifier: Apache-2.0
"""Installations as for the engine."""

from __future__ import annotations

from tests.functional.engine.conftest import install

__all__ = ["install"]
