# SPDX-License-Identifier: Apache-2.0
"""A copy of the source for tests that build it.

A build writes ``watcher_sync.egg-info`` into the source, which is on the path of the tests. Their processes would find
this distribution before the installed one. It has no entry points until the build has written them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.waiting import deadline

ROOT = Path(__file__).parents[1]


def copy_source(folder: Path) -> Path:
    """Clone the repository into a new folder, with what is not committed yet.

    :returns: the folder.
    """
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True, timeout=deadline(60)
    )
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, timeout=deadline(60)).stdout
    names = {os.fsdecode(name) for name in found.split(b"\0") if name}
    for name in names:
        source, copy = ROOT / name, folder / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
        else:
            copy.unlink(missing_ok=True)
    return folder
