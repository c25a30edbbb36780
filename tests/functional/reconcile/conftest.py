# SPDX-License-Identifier: Apache-2.0
"""Native threads as in our executables, and installations as for the engine."""

from __future__ import annotations

from oslo_service import backend

from tests.functional.engine.conftest import install

__all__ = ["install"]

backend.init_backend(backend.BackendType.THREADING)
