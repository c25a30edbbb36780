# SPDX-License-Identifier: Apache-2.0
"""``tools/wheels.py`` names what has no wheel for a version of Python, and fails if an earlier version had one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/wheels.py"
WHEEL = 'wheels = [{ url = "https://example.com/a-1-cp311-cp311-manylinux2014_x86_64.whl" }]'


def lock(*packages: tuple[str, str]) -> str:
    return "\n".join(f'[[packages]]\nname = "{name}"\nversion = "1"\n{wheels}' for name, wheels in packages)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Runs the tool with a ``uv`` that prints the lock file of each version; None: it finds no solution."""

    def run(**locks: str | None) -> subprocess.CompletedProcess[str]:
        cases = "\n".join(
            f"*'--python-version {version[1:].replace('_', '.')} '*) "
            + ("exit 1;;" if text is None else f"cat <<'END'\n{text}\nEND\n;;")
            for version, text in locks.items()
        )
        uv = tmp_path / "uv"
        uv.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
        uv.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        versions = [version[1:].replace("_", ".") for version in locks]
        return subprocess.run([sys.executable, TOOL, *versions], capture_output=True, text=True, check=False)

    return run


def test_a_wheel_that_only_a_later_version_lacks_is_named_and_fails(checked):
    result = checked(v3_11=lock(("a", WHEEL), ("b", "")), v3_14=lock(("a", ""), ("b", "")))
    assert result.stdout.splitlines() == [
        "Python 3.11: 2 packages, without a wheel: b==1",
        "Python 3.14: 2 packages, without a wheel: a==1, b==1",
    ]
    assert result.returncode == 1


def test_what_no_version_has_a_wheel_of_is_named_and_does_not_fail(checked):
    result = checked(v3_11=lock(("a", WHEEL), ("b", "")), v3_13=lock(("b", ""), ("c", WHEEL)))
    assert result.stdout.splitlines()[1] == "Python 3.13: 2 packages, without a wheel: b==1"
    assert result.returncode == 0


def test_requirements_that_a_version_cannot_have_fail(checked):
    result = checked(v3_11=lock(("a", WHEEL)), v3_12=None)
    assert result.stdout.splitlines()[1] == "Python 3.12: the requirements cannot be resolved"
    assert result.returncode == 1
