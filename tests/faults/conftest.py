# SPDX-License-Identifier: Apache-2.0
"""The servers and installations of the functional tests."""

from __future__ import annotations

from tests.functional.conftest import broker as broker
from tests.functional.conftest import figure as figure
from tests.functional.conftest import mariadb_url as mariadb_url
from tests.functional.conftest import own_nats as own_nats
from tests.functional.conftest import own_postgresql as own_postgresql
from tests.functional.conftest import postgresql_url as postgresql_url
from tests.functional.conftest import pytest_terminal_summary as pytest_terminal_summary
from tests.functional.conftest import sqlite_url as sqlite_url
from tests.functional.engine.conftest import backlog as backlog
from tests.functional.engine.conftest import install as install
from tests.functional.engine.conftest import line as line
