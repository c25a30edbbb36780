# SPDX-License-Identifier: Apache-2.0
"""A reconciler that is installed beside the package, as a plugin is, and writes down its runs."""

from __future__ import annotations

from pathlib import Path

MODULE = """
import pathlib
import threading

from watcher_sync.reconcile.base import Reconciler, Report

RUNS = pathlib.Path(__file__).with_name("runs")


class Standin(Reconciler):
    name = "standin"

    def scopes(self):
        return ["quick", "hanging"]

    def run(self, scope, *, dry_run=False, allow_deletes=False, deadline):
        with RUNS.open("a") as runs:
            runs.write(scope + "\\n")
        if scope == "hanging":
            threading.Event().wait()
        self.context.view().get("instance", "missing")
        return Report(scope=scope, dry_run=dry_run, complete=True, written=1)
"""


class Installed:
    """The distribution in a folder that is to be on ``PYTHONPATH``."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        info = folder / "standin_reconciler-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: standin-reconciler\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[watcher_sync.reconcilers]\nstandin = standin_reconciler:Standin\n")
        (folder / "standin_reconciler.py").write_text(MODULE)

    def runs(self, scope: str) -> int:
        """How often the scope was compared."""
        return self._runs.read_text().split().count(scope) if self._runs.exists() else 0
