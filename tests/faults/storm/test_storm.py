# SPDX-License-Identifier: Apache-2.0
"""A storm on each database. ``WATCHER_SYNC_STORM_SECONDS`` and the other settings are in ``plan``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faults.storm.plan import DATABASES, Settings  # noqa: E402
from tests.faults.storm.run import Storm, line_of_own, run  # noqa: E402

SECONDS = Settings.from_environment().seconds


@pytest.mark.timeout(int(2 * SECONDS) + 600)
@pytest.mark.parametrize("database", DATABASES)
def test_after_a_storm_the_tables_are_the_truth_or_a_report_says_what_is_not(
    tmp_path: Path, figure: Callable[[str], None], database: str
) -> None:
    settings = Settings.from_environment(database=database)
    storm = Storm(settings)
    with line_of_own("storm") as (line, node):
        run(storm, tmp_path, line, node.port, node)
    for text in storm.table():
        figure(text)
    assert not storm.failures, "\n".join([f"seed {settings.seed}", *storm.failures])
