# SPDX-License-Identifier: Apache-2.0
"""The older and the newer release, each with its source and its wheel.

The newer one is this tree, with what is not committed. The older one is the commit or tag that the variable
``WATCHER_SYNC_UPGRADE_FROM`` names. By default it is the newest earlier tag. While there is none, it is the last commit
that changed the migrations: those of a release that does not exist yet change in place.

If both have the same revision of the schema, the newer one gets the migration of
:mod:`tests.functional.engine.next_release`. So an upgrade always changes the schema.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.functional.engine.next_release import add_revision
from tests.source_copy import ROOT, copy_source
from tests.waiting import deadline

VARIABLE = "WATCHER_SYNC_UPGRADE_FROM"
_SCHEMA = "watcher_sync/storage/schema"
_BUILD_SECONDS = 400


class Release(NamedTuple):
    """A release that can be installed."""

    version: str
    source: Path
    wheel: Path


def run(command: Sequence[object], folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """:returns: what the command printed. :raises AssertionError: it failed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=deadline(_BUILD_SECONDS),
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


def build_both(folder: Path) -> tuple[Release, Release]:
    """The older and the newer release, in a new folder."""
    commit = older_commit()
    older, newer = folder / "older", folder / "newer"
    run(["git", "clone", "--quiet", "--no-hardlinks", "--no-checkout", ROOT, older], folder)
    run(["git", "checkout", "--quiet", "--detach", commit], older)
    copy_source(newer)
    if _head(older) == _head(newer):
        add_revision(newer / "watcher_sync", newer / "setup.cfg")
    run(["git", "add", "--all"], newer)  # the build takes files that git knows
    return _built("0.1.0.dev1", older), _built("0.1.0.dev2", newer)


def older_commit() -> str:
    """The commit to upgrade from. Without it the test fails with one line."""
    chosen = os.environ.get(VARIABLE) or _git("describe", "--tags", "--abbrev=0", "HEAD^")
    if not chosen and _git("rev-parse", "--is-shallow-repository") == "false":
        chosen = _git("log", "-1", "--format=%H", "--", f"{_SCHEMA}/migrations/versions")
    commit = _git("rev-parse", "--verify", f"{chosen}^{{commit}}") if chosen else ""
    if not commit:
        what = f"no commit {chosen}" if chosen else "no tag and not its whole history"
        pytest.fail(f"this clone has {what}: fetch it, or name a commit in {VARIABLE}", pytrace=False)
    return commit


def _git(*arguments: str) -> str:
    """What git prints; nothing if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=deadline(60))
    return done.stdout.strip() if done.returncode == 0 else ""


def _head(source: Path) -> str:
    """The revision that a source needs."""
    found = re.search(r'^HEAD: Final = "(\w+)"', (source / _SCHEMA / "schema.py").read_text(), re.MULTILINE)
    assert found, source
    return found[1]


def _built(version: str, source: Path) -> Release:
    folder = source / "dist"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    run(pip, source, {**os.environ, "PBR_VERSION": version})
    (wheel,) = folder.glob("*.whl")
    return Release(version, source, wheel)
