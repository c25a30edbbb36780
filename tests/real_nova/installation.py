# SPDX-License-Identifier: Apache-2.0
"""The virtual environment with the services of a cloud, such as Keystone, Placement, Glance and Nova; that of Tempest.

It is in the folder that a variable names, else in ``.tox/<name>``. The first run creates it, which takes
minutes. Later runs use it again until the requirements change. It is apart from the tests' own environment,
because the services and this project require different versions of some libraries.
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


def ensure_programs(
    name: str = "real-nova-cloud", requirements: Path = _REQUIREMENTS, *, variable: str = VARIABLE
) -> Programs:
    """Install what is missing.

    :param name: of the folder below ``.tox``.
    :param variable: of the environment, which may have another folder.
    :raises subprocess.CalledProcessError: pip failed; it wrote the reason to stderr.
    """
    folder = Path(os.environ.get(variable) or Path(__file__).parents[2] / ".tox" / name).absolute()
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    stamp = folder / _STAMP
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"{name}: installing into {folder}", file=sys.stderr, flush=True)
        if not (folder / "bin" / "python").exists():
            venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        subprocess.run(pip, check=True, stdout=sys.stderr.fileno())
        stamp.write_text(digest)
    return Programs(folder)
