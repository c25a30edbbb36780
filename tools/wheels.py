# SPDX-License-Identifier: Apache-2.0
"""Lists the dependencies that have no wheel for a version of Python, on Linux with x86_64.

::

    python tools/wheels.py

``uv`` resolves all requirements for each version, at the releases of ``constraints.txt``. It asks the package index of
its configuration, and its lock file has only the wheels that fit the version. The exit status is 1 if a version cannot
be resolved, or lacks a wheel that the first one does not lack. What the first one lacks is built from source
everywhere.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENTS = ("requirements.txt", "test-requirements.txt", "lint-requirements.txt")
_VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def main(argv: Sequence[str] | None = None) -> int:
    """:returns: the exit status."""
    parser = argparse.ArgumentParser(description="List the dependencies that have no wheel for a version of Python.")
    parser.add_argument("versions", nargs="*", default=_VERSIONS, help="default: %(default)s", metavar="VERSION")
    versions = parser.parse_args(argv).versions
    lacking: dict[str, set[str]] = {}
    for version in versions:
        try:
            packages, lacking[version] = wheels_for(version)
        except subprocess.CalledProcessError:
            print(f"Python {version}: the requirements cannot be resolved")
            return 1
        print(
            f"Python {version}: {packages} packages, without a wheel: {', '.join(sorted(lacking[version])) or 'none'}"
        )
    return int(any(lacking[version] - lacking[versions[0]] for version in versions))


def wheels_for(version: str) -> tuple[int, set[str]]:
    """The number of packages for a version of Python, and those of them without a wheel, as ``name==release``.

    :raises subprocess.CalledProcessError: ``uv`` found no solution, and said why.
    """
    command = ["uv", "pip", "compile", "--quiet", "--format", "pylock.toml", "--python-version", version]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--constraints", "constraints.txt", *_REQUIREMENTS]
    lock = subprocess.run(command, check=True, cwd=_ROOT, stdout=subprocess.PIPE, text=True).stdout
    packages = tomllib.loads(lock)["packages"]
    return len(packages), {f"{each['name']}=={each['version']}" for each in packages if not each.get("wheels")}


if __name__ == "__main__":
    sys.exit(main())
