# SPDX-License-Identifier: Apache-2.0
"""The first hour of an operator, from the installation to an upgrade, with the real commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import deadline

_ROOT = Path(__file__).parents[3]

CHAPTERS = ("Install", "Connect", "Look", "Find a broken VNF", "Heal", "Replay a quarantined event", "Upgrade")


@pytest.mark.rare
@pytest.mark.timeout(900)
def test_the_first_hour_of_an_operator_completes_all_its_chapters_in_order(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript"
    command = [sys.executable, _ROOT / "tools" / "first_hour.py", "--into", transcript]
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline(840), check=False)
    text = transcript.read_text()
    assert done.returncode == 0, text[-3000:] + done.stderr[-3000:]
    told = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    assert len(told) == len(CHAPTERS)
    assert all(line.startswith(chapter) for line, chapter in zip(told, CHAPTERS, strict=True))
    assert "Traceback" not in text
