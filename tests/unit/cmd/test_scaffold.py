# SPDX-License-Identifier: Apache-2.0
"""A plugin is begun whole or not at all, and a mistake is one line and an exit status."""

from __future__ import annotations

import pathlib
import tomllib
from pathlib import Path

import pytest
from oslo_config import cfg

from watcher_sync.assembly import process
from watcher_sync.cmd import manage, scaffold
from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.testing.stable_imports import assert_stable_imports


def run(*arguments: object) -> int:
    """The exit status of ``watcher-sync-manage plugin scaffold``."""

    def main(argv: list[str]) -> int:
        command = cfg.SubCommandOpt("command", handler=manage.add_commands)
        conf = cfg.ConfigOpts()
        conf.register_cli_opt(command)
        conf(argv, default_config_files=[], default_config_dirs=[])
        scaffold.plugin(conf)
        return 0

    return process.run(main, ["plugin", "scaffold", *map(str, arguments)])


def test_the_files_have_the_names_of_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    assert run("Site.pumps-2", "--directory", folder) == 0
    assert str(folder) in capsys.readouterr().out
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README.rst",
        "pyproject.toml",
        "src/site_pumps_2/__init__.py",
        "src/site_pumps_2/entity.py",
        "src/site_pumps_2/extension.py",
        "src/site_pumps_2/handler.py",
        "src/site_pumps_2/sizes.py",
        "tests/test_extension.py",
        "tests/test_plugin.py",
    ]
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "Site.pumps-2"
    assert project["entry-points"] == {
        "watcher_sync.handlers": {"site_pumps_2": "site_pumps_2.handler:SitePumps2Handler"},
        "watcher_sync.entities": {"site_pumps_2": "site_pumps_2.entity:SitePumps2"},
        "watcher_sync.extensions": {"site_pumps_2": "site_pumps_2.extension:SitePumps2Extension"},
    }
    assert_stable_imports(folder)
    for path in folder.rglob("*.py"):
        compile(path.read_text(), path, "exec")


def test_an_empty_folder_is_used_and_the_default_is_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pumps").mkdir()
    assert run("pumps") == 0
    assert Path("pumps/pyproject.toml").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is no name of a distribution"),
        ("a/b", "is no name of a distribution"),
        ("-a", "is no name of a distribution"),
        ("a-", "is no name of a distribution"),
        ("2pumps", "is no name of a distribution"),
        ("pümps", "is no name of a distribution"),
        ("p" * 41, "is no name of a distribution"),
        ("pumps\n", "is no name of a distribution"),
        ("class", "is the name of an installed module"),
        ("json", "is the name of an installed module"),
        ("watcher-sync", "is the name of an installed module"),
        ("none", "is no name of a class"),
        ("true", "is no name of a class"),
        *((name, "is no name of a class") for name in ("text", "count", "path", "entity", "annotated", "played")),
        ("compute-node", "is the name of an installed kind"),
    ],
)
def test_a_name_that_no_plugin_can_have_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run("--directory", tmp_path / "new", "--", name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (tmp_path / "new").exists()


def test_a_folder_with_files_and_a_file_are_wrong_usage_and_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes"
    file.write_text("mine")
    for place in (tmp_path, file):
        assert run("pumps", "--directory", place) == 2
        assert capsys.readouterr().err == f"error: {place}: exists and is not an empty folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    assert file.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, why in (
        (tmp_path / "missing" / "new", "No such file or directory"), (Path("/proc/new"), "No such file or directory"),
    ):  # fmt: skip
        assert run("pumps", "--directory", place) == 1
        assert capsys.readouterr().err == f"error: {place}: {why}\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_nothing_half_written_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    folder, write = tmp_path / "new", pathlib.Path.write_text
    if is_there:
        folder.mkdir()

    def until_the_disk_is_full(path: Path, text: str) -> int:
        if path.name == "handler.py":
            raise OSError(28, "No space left on device")
        return write(path, text)

    monkeypatch.setattr(pathlib.Path, "write_text", until_the_disk_is_full)
    with pytest.raises(WatcherSyncError, match="No space left on device") as caught:
        scaffold.scaffold("pumps", folder)
    assert not isinstance(caught.value, ConfigError)
    assert [str(path) for path in tmp_path.rglob("*")] == ([str(folder)] if is_there else [])
