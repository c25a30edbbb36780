# SPDX-License-Identifier: Apache-2.0
"""The import contract of pyproject.toml is strict, and one import against it is found."""

from __future__ import annotations

import configparser
import pathlib
import subprocess
import sys
import tomllib

import pytest

from tests.waiting import deadline

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(LAYERS,) = (contract for contract in CONTRACTS if contract["name"] == "Layers")
GROUND = LAYERS["layers"][-1]


def modules(layer):
    """The names in one line of the contract."""
    return [name.strip(" ()") for name in layer.replace(":", "|").split("|")]


def lint(folder, *, planted=()):
    """Checks the contract of pyproject.toml on empty modules of its names, with imports planted: (status, output).

    :param planted: pairs of an importing and an imported module.
    """
    package = folder / "watcher_sync"
    package.mkdir()
    (package / "__init__.py").touch()
    for layer in LAYERS["layers"]:
        for name in modules(layer):
            imports = [f"import watcher_sync.{imported}\n" for importer, imported in planted if importer == name]
            (package / f"{name}.py").write_text("".join(imports))
    parser = configparser.ConfigParser()
    parser["importlinter"] = {"root_packages": "\nwatcher_sync"}
    parser["importlinter:contract:layers"] = {
        "name": LAYERS["name"],
        "type": LAYERS["type"],
        "containers": "\n" + "\n".join(LAYERS["containers"]),
        "layers": "\n" + "\n".join(LAYERS["layers"]),
    }
    with (folder / ".importlinter").open("w") as file:
        parser.write(file)
    command = [pathlib.Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ".importlinter"]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": "."}, capture_output=True, text=True, timeout=deadline(60)
    )
    return done.returncode, done.stdout


def test_modules_of_one_layer_may_import_each_other_only_on_the_ground():
    assert [layer for layer in LAYERS["layers"] if ":" in layer] == [GROUND]
    ground = "tracing events conf exceptions extension decoding escaping accounts backoff periodic plugins tasks"
    assert modules(GROUND) == ground.split()


def test_the_contract_holds_without_an_import_against_it(tmp_path):
    allowed = [("cmd", "api"), ("api", "commit"), ("conf", "exceptions")]
    status, output = lint(tmp_path, planted=allowed)
    assert (status, "Layers KEPT" in output) == (0, True), output


@pytest.mark.parametrize(
    ("importer", "imported"),
    [("api", "reconcile"), ("reconcile", "engine"), ("cmd", "wsgi"), ("storage", "commit"), ("sources", "operations")],
)
def test_an_import_against_the_contract_breaks_it_and_both_are_named(tmp_path, importer, imported):
    status, output = lint(tmp_path, planted=[(importer, imported)])
    assert (status, "Layers BROKEN" in output) == (1, True), output
    assert f"watcher_sync.{importer} -> watcher_sync.{imported}" in output.replace("\n", " ")


def test_the_architecture_page_shows_the_contract():
    page = (ROOT / "doc" / "source" / "contributor" / "architecture.rst").read_text()
    block = page.partition("``lint-imports`` checks it::\n\n")[2].partition("\n\n")[0]
    assert [line.strip() for line in block.splitlines()] == LAYERS["layers"]
