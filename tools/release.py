# SPDX-License-Identifier: Apache-2.0
"""Builds a release: the source and wheel distributions, an SBOM, and their digests.

::

    python tools/release.py --into dist

The SBOM is a CycloneDX document of a fresh environment with the wheel, at the versions of ``constraints.txt``. The file
``SHA256SUMS`` has the digests; ``sha256sum --check SHA256SUMS`` verifies them. The tools are those of
``release-requirements.txt``, which ``tox -e release`` installs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_SUMS = "SHA256SUMS"


def main(argv: Sequence[str] | None = None) -> int:
    """:returns: the exit status."""
    parser = argparse.ArgumentParser(description="Build a release with its SBOM and digests.")
    parser.add_argument("--into", type=Path, default=_ROOT / "dist", help="an empty or a new folder (%(default)s)")
    parser.add_argument("--source", type=Path, default=_ROOT, help="the folder with the source (%(default)s)")
    parser.add_argument(
        "--python", help="the interpreter of an environment that has all requirements; default: a new environment"
    )
    arguments = parser.parse_args(argv)
    into: Path = arguments.into
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        print(f"error: --into {into}: the folder is not empty", file=sys.stderr)
        return 2
    try:
        wheel = build(arguments.source, into)
        describe(wheel, into, arguments.python)
    except subprocess.CalledProcessError as exc:
        print(f"error: {' '.join(map(str, exc.cmd[:4]))} ended with status {exc.returncode}", file=sys.stderr)
        return 1
    write_sums(into)
    return 0


def build(source: Path, into: Path) -> Path:
    """Build both distributions with the tools of this environment; returns the wheel."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", str(into), str(source))
    (wheel,) = into.glob("*.whl")
    return wheel


def describe(wheel: Path, into: Path, python: str | None) -> Path:
    """Write the SBOM beside the wheel; returns it."""
    sbom = into / f"{wheel.name.split('-py3')[0]}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="watcher-sync-release-") as folder:
        python = python or _install(wheel, Path(folder))
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
        _run(*command, "--output-format", "JSON", "--output-file", str(sbom), python)
    return sbom


def _install(wheel: Path, folder: Path) -> str:
    """Install the wheel into a new environment; returns its interpreter."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    _run(python, "-m", "pip", "install", "--quiet", "--constraint", str(_ROOT / "constraints.txt"), str(wheel))
    return python


def write_sums(into: Path) -> Path:
    """Write the digests of all files, as ``sha256sum`` does."""
    files = sorted(path for path in into.iterdir() if path.name != _SUMS)
    sums = into / _SUMS
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    return sums


def _run(*command: str) -> None:
    # pbr would add release notes to the source if reno is installed, so the content would depend on the environment.
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "SKIP_GENERATE_RENO": "1"})


if __name__ == "__main__":
    sys.exit(main())
