# SPDX-License-Identifier: Apache-2.0
"""A module that cannot be imported is named with its error, and hides no other one."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.checks.imports import main

_NAMES = itertools.count(1)


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    """A package with these modules: name -> text."""
    name = f"made_for_imports_{next(_NAMES)}"
    below = folder / name / "below"
    below.mkdir(parents=True)
    for place in (folder / name, below):
        (place / "__init__.py").touch()
    for module, text in modules.items():
        (below / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return name


def test_a_package_whose_modules_can_all_be_imported_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = package(tmp_path, monkeypatch, good="X = 1")
    assert main([name]) == 0
    assert capsys.readouterr().out == f"{name}: 3 modules\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("from nowhere_at_all import x", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError: "),
    ],
)
def test_each_broken_module_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    name = package(tmp_path, monkeypatch, bad=text, bad_too=text, good="X = 1")
    assert main([name]) == 1
    bad, bad_too, count = capsys.readouterr().out.splitlines()
    assert bad.startswith(f"{name}.below.bad: {error}")
    assert bad_too.startswith(f"{name}.below.bad_too: {error}")
    assert count == f"{name}: 5 modules"


def test_a_folder_that_is_no_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = package(tmp_path, monkeypatch)
    folder = tmp_path / name / "scripts"
    folder.mkdir()
    (folder / "one.py").touch()
    assert main([name]) == 0
    assert f"{folder}: no package" in capsys.readouterr().out
