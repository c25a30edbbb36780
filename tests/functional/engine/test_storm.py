# SPDX-License-Identifier: Apache-2.0
"""The short form of the storm of ``tests/faults/storm``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.storm.plan import Settings
from tests.faults.storm.run import Storm, run
from tests.functional.engine.driving import Line

SETTINGS = Settings(seed=1, seconds=5, pause=0.7, most=12)


@pytest.mark.rare
def test_a_short_storm_leaves_the_tables_as_the_truth(
    tmp_path: Path, line: Callable[[str], Line], figure: Callable[[str], None]
) -> None:
    nova = line("nova")
    storm = Storm(SETTINGS)
    run(storm, tmp_path, nova, urlsplit(nova.url).port or 5672)
    figure(f"{len(storm.happened)} faults, {storm.verdict.changes} changes, {storm.seconds:.1f} s in all")
    assert not storm.failures, "\n".join(storm.failures)
