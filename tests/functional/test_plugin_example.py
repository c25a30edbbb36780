# SPDX-License-Identifier: Apache-2.0
"""The example plugin works as its README says, installed beside the package, with no change to it.

The tests build the project and the plugin as wheels and install them into a separate environment. So they also prove
that the wheel is complete, with its entry points and migrations.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.source_copy import ROOT, copy_source
from tests.waiting import deadline, wait_until

Printed = dict[str, str]

PLUGIN = ROOT / "doc" / "examples" / "watcher-sync-example-plugin"

_EACH = """
import contextlib, io, json, sys
import watcher_sync
from watcher_sync.cmd import manage
printed = {{"package": watcher_sync.__file__}}
for name, argv in {argvs!r}.items():
    sys.argv = ["watcher-sync-manage", *argv]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)) as out:
        try:
            manage.main()
        except SystemExit as end:
            assert not end.code, (argv, end.code)
    printed[name] = out.buffer.getvalue().decode()
json.dump(printed, sys.stdout)
"""
"""The program of :meth:`Installed.manage_each`."""


class Installed:
    """An environment with the project and the plugins, and a configuration with an SQLite database."""

    def __init__(self, folder: Path, *plugins: Path) -> None:
        self.folder = folder
        self.plugins = plugins or (PLUGIN,)
        self.environment = folder / "venv"
        self.config = folder / "watcher-sync.conf"
        # An operator's shell: nothing of the source tree is on the path.
        self.variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def install(self) -> None:
        source, wheels = copy_source(self.folder / "source"), self.folder / "wheels"
        pip = (sys.executable, "-m", "pip")
        plugins = [source / plugin.relative_to(ROOT) for plugin in self.plugins]
        # What builds them is in this environment: to install it once for each wheel takes longer than the builds.
        self._run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels, source, *plugins)
        venv.create(self.environment, with_pip=False)
        python = self.environment / "bin" / "python"
        built = sorted(wheels.glob("*.whl"))
        assert len(built) == 1 + len(plugins)
        self._run(*pip, "--python", python, "install", "--quiet", "--no-deps", "--no-compile", *built)
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

    def manage_each(self, **commands: Sequence[object]) -> Printed:
        """What each of these commands prints, and where the package is. One process runs them, for its imports."""
        argvs = {name: ["--config-file", str(self.config), *map(str, command)] for name, command in commands.items()}
        python = self.environment / "bin" / "python"
        found: Printed = json.loads(self._run(python, "-c", _EACH.format(argvs=argvs)))
        return found

    @contextlib.contextmanager
    def outlet(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process of ``watcher-sync-outlet`` that runs."""
        errors = self.folder / "outlet.log"
        command = [self.environment / "bin" / "watcher-sync-outlet", "--config-file", self.config]
        with errors.open("wb") as file:
            process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stderr=file)
        try:
            yield process
            process.terminate()
            assert process.wait(deadline(30)) == 0, errors.read_text()
        finally:
            process.kill()
            process.wait()

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


@pytest.fixture(scope="module")
def printed(installed: Installed) -> Printed:
    """What the installed commands print, one after the other."""
    return installed.manage_each(
        handlers=["handlers"],
        replay=["replay", "-f", "json", PLUGIN / "events.jsonl"],
        racks=["model", "dump", "--kind", "rack"],
        quarantine=["quarantine", "list"],
    )


def test_the_patterns_of_an_installed_plugin_are_in_the_dispatch_table(printed: Printed) -> None:
    table = printed["handlers"].splitlines()
    for pattern in ("rack.power.*", "rack.power.test", "rack.removed"):
        (line,) = [line for line in table if pattern in line.split()]
        assert "racks" in line
    assert any("instance.create.end" in line and "nova" in line for line in table)


def test_events_of_a_plugins_dialect_end_in_the_plugins_kind_whatever_their_order(printed: Printed) -> None:
    counts = json.loads(printed["replay"])
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

    racks = [json.loads(line) for line in printed["racks"].splitlines()]
    assert racks == [
        {"id": "r1", "room": "1", "power": "off", "watts": 0},
        {"id": "r2", "room": "1", "power": "on", "watts": 3500},
    ]

    assert "watts" in printed["quarantine"]


def test_the_package_that_runs_is_the_installed_one_and_not_the_source_tree(
    installed: Installed, printed: Printed
) -> None:
    assert Path(printed["package"]).is_relative_to(installed.environment)


def test_an_outlet_of_an_installed_plugin_publishes_the_model_and_then_each_change(
    installed: Installed, printed: Printed
) -> None:
    log = installed.folder / "changes.jsonl"
    with installed.config.open("a") as config:
        config.write("[outlet_webhook]\nenabled = false\n[outlets]\nenabled = archive\n")
        config.write(f"[outlet_archive]\ndriver = file\nkinds = rack\npath = {log}\n")

    def changes() -> list[tuple[str, Any]]:
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        found = [json.loads(line)["data"] for line in lines if line.endswith(b"\n")]
        return [(each["change"], each.get("entity")) for each in found]

    with installed.outlet() as process:
        wait_until(lambda: process.poll() is not None or ("snapshot_end", None) in changes())
        event = {"specversion": "1.0", "id": "a-99", "source": "/rooms/1", "type": "rack.power.on", "subject": "r1"}
        event |= {"time": "2026-03-02T08:00:00Z", "data": {"rack": "r1", "sequence": 99, "room": "1", "watts": 700}}
        (installed.folder / "more.jsonl").write_text(json.dumps(event))
        installed.manage("replay", installed.folder / "more.jsonl")
        wait_until(lambda: changes()[-1][0] == "updated")
    first, *racks, end, last = changes()
    assert (first, end) == (("snapshot_begin", None), ("snapshot_end", None))
    assert sorted(racks, key=lambda each: each[1]["id"]) == [
        ("snapshot", {"id": "r1", "room": "1", "power": "off", "watts": 0}),
        ("snapshot", {"id": "r2", "room": "1", "power": "on", "watts": 3500}),
    ]
    assert last == ("updated", {"id": "r1", "room": "1", "power": "on", "watts": 700})
