# SPDX-License-Identifier: Apache-2.0
"""The release notes: a tag is all that gives the notes of a release their number."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
VERSION = "0.1.0"


def run(folder: Path, *command: object) -> str:
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    return run(folder, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our notes in its first commit."""
    shutil.copytree(ROOT / "releasenotes", tmp_path / "releasenotes", ignore=shutil.ignore_patterns("build"))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "notes")
    return tmp_path


def sections(repository: Path) -> dict[str, str]:
    """Version -> its notes, as the page has them."""
    report = run(repository, Path(sys.executable).with_name("reno"), "report", "--no-show-source", ".")
    heads = re.findall(r"^([^\n]+)\n=+$", report, re.MULTILINE)
    texts = re.split(r"^[^\n]+\n=+$", report, flags=re.MULTILINE)
    return dict(zip(heads, texts[1:], strict=True))


@pytest.mark.slow
def test_after_the_tag_the_notes_have_the_number_of_the_release(repository):
    before = sections(repository)
    assert VERSION not in before
    git(repository, "tag", "--annotate", "--message", "release", VERSION)
    assert "The first release." in sections(repository)[VERSION]
    note = repository / "releasenotes" / "notes" / "later-0123456789abcdef.yaml"
    note.write_text("---\nfeatures:\n  - A later feature.\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "later")
    found = sections(repository)
    assert "A later feature." not in found[VERSION]
    assert any("A later feature." in text for head, text in found.items() if head != VERSION)


def test_the_next_release_is_the_one_of_setup_cfg_and_has_a_prelude():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    version = setup["metadata"]["version"]
    preludes = [yaml.safe_load(n.read_text()).get("prelude") for n in (ROOT / "releasenotes" / "notes").glob("*.yaml")]
    assert [name.name for name in (ROOT / "releasenotes" / "notes").glob(f"release-{version}-*.yaml")]
    assert any(preludes)


def test_every_note_has_known_sections():
    known = {"prelude", "features", "fixes", "upgrade", "deprecations", "security", "issues", "critical", "other"}
    for note in (ROOT / "releasenotes" / "notes").glob("*.yaml"):
        assert set(yaml.safe_load(note.read_text())) <= known, note.name
