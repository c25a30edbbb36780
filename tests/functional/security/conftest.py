# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the storage's tests, for attacks on what is stored."""

from __future__ import annotations

from tests.functional.storage.conftest import new_store as new_store
from tests.functional.storage.conftest import store as store
