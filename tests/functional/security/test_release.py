# SPDX-License-Identifier: Apache-2.0
"""A release has digests that verify, and an SBOM that names every requirement."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.waiting import deadline

# Both distributions are built, and hundreds of packages are described.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(400)]

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A release of the committed source, with the SBOM of the environment of this test."""
    folder = tmp_path_factory.mktemp("release")
    source, into = folder / "source", folder / "dist"
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", str(_ROOT), str(source)], check=True, timeout=deadline(60)
    )
    command = [sys.executable, str(_ROOT / "tools" / "release.py")]
    done = subprocess.run(
        [*command, "--source", str(source), "--into", str(into), "--python", sys.executable],
        capture_output=True, text=True, check=False, timeout=deadline(300),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return into


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_digests_verify_and_cover_every_file(release):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, check=False, timeout=deadline(60)
    )
    assert done.returncode == 0
    named = {line.split()[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in release.iterdir()} - {"SHA256SUMS"}
    assert sorted(Path(name).suffix for name in named) == [".gz", ".json", ".whl"]


def test_a_changed_file_fails_the_digest(release, tmp_path):
    (wheel,) = release.glob("*.whl")
    (tmp_path / "SHA256SUMS").write_text((release / "SHA256SUMS").read_text())
    for path in release.iterdir():
        if path.name != "SHA256SUMS":
            (tmp_path / path.name).write_bytes(path.read_bytes() + (b"x" if path == wheel else b""))
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=False, timeout=deadline(60)
    )
    assert done.returncode != 0


def test_the_sbom_names_every_requirement_with_its_version(release):
    (sbom,) = release.glob("*.cdx.json")
    document = json.loads(sbom.read_text())
    assert document["bomFormat"] == "CycloneDX"
    versions = {_normal(c["name"]): c.get("version") for c in document["components"]}
    lines = (line.partition("#")[0].strip() for line in (_ROOT / "requirements.txt").read_text().splitlines())
    required = {_normal(re.split(r"[\[<>=]", line)[0]) for line in lines if line}
    assert sorted(required - set(versions)) == []
    assert [name for name in required if not versions[name]] == []
    assert "watcher-sync" in versions


def test_the_distributions_have_the_units_and_the_security_policy(release):
    (wheel,) = release.glob("*.whl")
    (source,) = release.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith("etc/systemd/watcher-sync-engine.service") for name in archive.namelist())
    with tarfile.open(source) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"SECURITY.rst", "tools/release.py", "constraints.txt"} <= names


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "old").touch()
    done = subprocess.run(
        [sys.executable, str(_ROOT / "tools" / "release.py"), "--into", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=deadline(60),
    )  # fmt: skip
    assert (done.returncode, "the folder is not empty" in done.stderr) == (2, True)
