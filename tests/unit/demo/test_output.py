# SPDX-License-Identifier: Apache-2.0
"""What the demo prints goes to the first stream that accepts it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from watcher_sync.demo.output import DemoOutput


def test_a_step_says_what_it_starts_and_how_long_it_took(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    with DemoOutput(tmp_path / "outcome").step("the cloud"):
        assert capsys.readouterr().out == "start: the cloud ... "
    assert re.fullmatch(r"\d s\n", capsys.readouterr().out)


@pytest.mark.parametrize("closed", ["1", "1 2"])
def test_a_text_that_is_refused_goes_to_stderr_and_then_to_a_file(tmp_path: pathlib.Path, closed: str) -> None:
    """The reader of a pipe is gone."""
    file = tmp_path / "outcome"
    script = f"""
import os, pathlib, sys
for number in map(int, "{closed}".split()):
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, number)
from watcher_sync.demo.output import DemoOutput
output = DemoOutput(pathlib.Path({str(file)!r}))
output.write("\\x1b[1mEqual\\x1b[0m\\n")
output.write("again\\n")
sys.exit(output.is_lost)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    lost = closed == "1 2"
    assert done.returncode == lost
    assert done.stdout == ""
    assert done.stderr == ("" if lost else "\x1b[1mEqual\x1b[0m\nagain\n")
    assert file.exists() == lost
    assert not lost or file.read_text() == "Equal\nagain\n"
