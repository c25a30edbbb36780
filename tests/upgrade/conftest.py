# SPDX-License-Identifier: Apache-2.0
"""The servers of the functional tests."""

from __future__ import annotations

from tests.functional.conftest import broker as broker
from tests.functional.conftest import figure as figure
from tests.functional.conftest import postgresql_url as postgresql_url
from tests.functional.conftest import pytest_terminal_summary as pytest_terminal_summary
from tests.functional.engine.conftest import line as line
