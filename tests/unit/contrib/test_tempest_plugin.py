# SPDX-License-Identifier: Apache-2.0
"""The plugin for Tempest, without Tempest: its entry point, and the rules that Tempest has for tests."""

from __future__ import annotations

import ast
import collections
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

DISTRIBUTION = Path(__file__).parents[3] / "contrib" / "watcher-sync-tempest-plugin"
TESTS = sorted((DISTRIBUTION / "watcher_sync_tempest_plugin" / "tests").rglob("test_*.py"))


def classes(path: Path) -> dict[str, ast.ClassDef]:
    """Name -> class of a module."""
    return {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The methods of a class."""
    return (each for each in node.body if isinstance(each, ast.FunctionDef))


def ids(path: Path) -> Iterator[str]:
    """The id of each test of a module; empty: it has none."""
    tests = (each for node in classes(path).values() for each in methods(node) if each.name.startswith("test_"))
    for test in tests:
        calls = [each for each in test.decorator_list if isinstance(each, ast.Call)]
        found = [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func).endswith("idempotent_id")]
        yield "".join(found)


def test_the_entry_point_is_a_plugin_with_all_that_tempest_calls() -> None:
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text())["project"]
    assert list(project["entry-points"]) == ["tempest.test_plugins"]
    module, _, name = project["entry-points"]["tempest.test_plugins"]["watcher_sync"].partition(":")
    plugin = classes(DISTRIBUTION.joinpath(*module.split(".")).with_suffix(".py"))[name]
    assert [ast.unparse(base) for base in plugin.bases] == ["plugins.TempestPlugin"]
    assert {each.name for each in methods(plugin)} == {
        "load_tests", "register_opts", "get_opt_lists", "get_service_clients",
    }  # fmt: skip


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_test_has_an_id(path: Path) -> None:
    assert list(ids(path))
    assert all(map(len, ids(path)))


def test_no_id_is_of_two_tests() -> None:
    counted = collections.Counter(one for path in TESTS for one in ids(path))
    assert len(counted) >= 14
    assert [one for one, count in counted.items() if count > 1] == []
