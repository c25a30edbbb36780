# SPDX-License-Identifier: Apache-2.0
"""The example plugin works as its README says, installed beside the package, with no change to it.

The tests build the project and the plugin as wheels and install them into a separate environment. So they also prove
that the wheel is complete, with its entry points and migrations.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.source_copy import ROOT, copy_source
from tests.waiting import deadline

PLUGIN = ROOT / "doc" / "examples" / "watcher-sync-example-plugin"


class Installed:
    """An environment with the project and the plugin, and a configuration with an SQLite database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = folder / "venv"
        self.config = folder / "watcher-sync.conf"
        # An operator's shell: nothing of the source tree is on the path.
        self.variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def install(self) -> None:
        source, wheels = copy_source(self.folder / "source"), self.folder / "wheels"
        self._run(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            wheels,
            source,
            source / PLUGIN.relative_to(ROOT),
        )
        venv.create(self.environment, with_pip=False)
        python = self.environment / "bin" / "python"
        built = sorted(wheels.glob("*.whl"))
        assert len(built) == 2
        self._run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *built)
        # The libraries that the project needs are those of the test run. A path line reads no .pth files
        # of that folder, so an editable installation there stays out of the way.
        own = sysconfig.get_path("purelib", "venv", {"base": str(self.environment)})
        libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        Path(own, "libraries.pth").write_text("".join(f"{path}\n" for path in sorted(libraries)))
        self.config.write_text(f"[DEFAULT]\nstate_path = {self.folder}\n")

    def manage(self, *arguments: object) -> str:
        """What ``watcher-sync-manage`` prints."""
        manage = self.environment / "bin" / "watcher-sync-manage"
        return self._run(manage, "--config-file", self.config, *arguments)

    def python(self, code: str) -> str:
        return self._run(self.environment / "bin" / "python", "-c", code)

    def _run(self, *command: object) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=deadline(300),
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("plugin"))
    installed.install()
    installed.manage("db_sync")
    return installed


def test_the_package_that_runs_is_the_installed_one_and_not_the_source_tree(installed: Installed) -> None:
    where = installed.python("import watcher_sync; print(watcher_sync.__file__)").strip()
    assert Path(where).is_relative_to(installed.environment)


def test_the_patterns_of_an_installed_plugin_are_in_the_dispatch_table(installed: Installed) -> None:
    table = installed.manage("handlers").splitlines()
    for pattern in ("rack.power.*", "rack.power.test", "rack.removed"):
        (line,) = [line for line in table if pattern in line.split()]
        assert "racks" in line
    assert any("instance.create.end" in line and "nova" in line for line in table)


def test_events_of_a_plugins_dialect_end_in_the_plugins_kind_whatever_their_order(installed: Installed) -> None:
    counts = json.loads(installed.manage("replay", "-f", "json", PLUGIN / "events.jsonl"))
    del counts["seconds"]
    assert counts == {
        "read": 9,
        "applied": 5,
        "stale": 1,
        "duplicate": 1,
        "ignored": 1,
        "parked": 0,
        "quarantined": 1,
    }

    racks = [json.loads(line) for line in installed.manage("model", "dump", "--kind", "rack").splitlines()]
    assert racks == [
        {"id": "r1", "room": "1", "power": "off", "watts": 0},
        {"id": "r2", "room": "1", "power": "on", "watts": 3500},
    ]

    assert "watts" in installed.manage("quarantine", "list")
