# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the tests of the engine and of the storage."""

from __future__ import annotations

from tests.functional.engine.conftest import install as install
from tests.functional.engine.conftest import line as line
from tests.functional.storage.conftest import declared_kinds as declared_kinds
from tests.functional.storage.conftest import new_store as new_store
from tests.functional.storage.conftest import store as store
