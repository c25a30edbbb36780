# SPDX-License-Identifier: Apache-2.0
"""The virtual environment with Keystone, Placement, Glance and Nova.

It is in the folder that :data:`VARIABLE` names, else in ``.tox/real-nova-cloud``. The first run creates it, which takes
minutes. Later runs use it again until ``requirements.txt`` changes. It is apart from the tests' own environment,
because Nova and this project require different versions of some libraries.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

VARIABLE = "WATCHER_SYNC_TEST_OPENSTACK"

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_STAMP = "requirements.sha256"


class Programs:
    """The installed programs of the cloud."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def python(self) -> str:
        return self.path("python")

    def path(self, name: str) -> str:
        """The path of a program."""
        return str(self.folder / "bin" / name)

    def package_file(self, name: str) -> Path:
        """A file that the distributions installed, such as ``etc/nova/api-paste.ini``."""
        return self.folder / name


def ensure_programs() -> Programs:
    """Install what is missing.

    :raises subprocess.CalledProcessError: pip failed; it wrote the reason to stderr.
    """
    folder = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / ".tox" / "real-nova-cloud").absolute()
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    stamp = folder / _STAMP
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"real-nova: installing OpenStack into {folder}", file=sys.stderr, flush=True)
        if not (folder / "bin" / "python").exists():
            venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--requirement", str(_REQUIREMENTS)]
        subprocess.run(pip, check=True, stdout=sys.stderr.fileno())
        stamp.write_text(digest)
    return Programs(folder)
