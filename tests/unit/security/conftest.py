# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the API's tests."""

from __future__ import annotations

from tests.unit.api.conftest import application, client, conf, cycle, problem, store, truth

__all__ = ["application", "client", "conf", "cycle", "problem", "store", "truth"]
