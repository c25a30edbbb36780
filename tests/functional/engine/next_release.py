# SPDX-License-Identifier: Apache-2.0
"""A next release: a copy of this package with one migration more, which does what a migration may do.

It has another version, a field more (``colour`` of aggregates), and a kind more (``licence``).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import watcher_sync
from tests.functional.engine.driving import Installation
from tests.waiting import deadline
from watcher_sync.storage.schema import schema

_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = {revision!r}
down_revision = {before!r}


def upgrade():
    op.add_column("journal", sa.Column("of_the_next_release", sa.String(32)))
    op.add_column("journal_head", sa.Column("of_the_next_release", sa.String(32)))
    op.add_column("leases", sa.Column("of_the_next_release", sa.String(32)))
    op.create_table("of_the_next_release", sa.Column("id", sa.BigInteger, primary_key=True))
    op.create_index("ix_of_the_next_release", "journal", ["of_the_next_release"])
"""

_FIELD = """    number: Annotated[Count | None, In("state"),"""
_NEW_FIELD = """    colour: Annotated[Text | None, In("state"), Doc("Of the next release.")] = None
"""
_NEW_KIND = """

@kind("licence", plural="licences", anchor="state")
class Licence(Entity, frozen=True, kw_only=True, gc=False):
    \"\"\"A licence. Id: its number.\"\"\"

    name: Annotated[Text | None, In("state"), Doc("Its name.")] = None
"""
_ENTRY = "aggregate = watcher_sync.extensions.openstack.kinds:Aggregate\n"
_NEW_ENTRY = "licence = watcher_sync.extensions.openstack.kinds:Licence\n"

_HEAD = 'HEAD: Final = "{}"'


def add_revision(package: Path, entry_points: Path) -> str:
    """Make a copy of this package the next release's.

    :param entry_points: the file with those of the copy, ``setup.cfg`` or ``entry_points.txt``.
    :returns: its revision.
    """
    revision = f"{int(schema.HEAD) + 1:04}"
    storage = package / "storage" / "schema"
    migration = _MIGRATION.format(revision=revision, before=schema.HEAD)
    (storage / "migrations" / "versions" / f"{revision}_next.py").write_text(migration)
    _replace(storage / "schema.py", _HEAD.format(schema.HEAD), _HEAD.format(revision))
    _replace(package / "extensions" / "openstack" / "kinds.py", _FIELD, _NEW_FIELD + _FIELD)
    with (package / "extensions" / "openstack" / "kinds.py").open("a") as entities:
        entities.write(_NEW_KIND)
    lines = entry_points.read_text().splitlines(keepends=True)
    (at,) = (number for number, line in enumerate(lines) if line.lstrip() == _ENTRY)
    lines.insert(at, lines[at].replace(_ENTRY, _NEW_ENTRY))
    entry_points.write_text("".join(lines))
    return revision


class NextRelease:
    """The package of the next release, in a folder that is to be on ``PYTHONPATH``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = Path(watcher_sync.__file__).parent
        package = folder / source.name
        shutil.copytree(source, package)  # with what is compiled, which is valid for the copies
        self.revision = add_revision(package, self._describe())

    def _describe(self) -> Path:
        """Write the metadata of the distribution, with the entry points of this release; returns their file."""
        this = importlib.metadata.distribution("watcher-sync")
        self.version = f"{this.version.partition('.dev')[0]}.post1"
        folder = self.folder / f"watcher_sync-{self.version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: watcher-sync\nVersion: {self.version}\n")
        (folder / "entry_points.txt").write_text(this.read_text("entry_points.txt") or "")
        return folder / "entry_points.txt"

    def run(self, site: Installation, script: str, *arguments: str) -> None:
        """Run a script that imports this release."""
        command = [sys.executable, "-P", "-c", script, *arguments]
        environment = {**site.environment, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=deadline(60))
        assert done.returncode == 0, done.stderr

    @contextlib.contextmanager
    def installed(self, site: Installation) -> Iterator[None]:
        """What a site starts within the block is of this release."""
        site.environment["PYTHONPATH"] = str(self.folder)
        try:
            yield
        finally:
            del site.environment["PYTHONPATH"]

    def db_sync(self, site: Installation, *options: str) -> str:
        """What ``db_sync`` of this release prints."""
        with self.installed(site):
            return site.manage("db_sync", *options)


def _replace(module: Path, old: str, new: str) -> None:
    text = module.read_text()
    assert text.count(old) == 1, (module, old)
    module.write_text(text.replace(old, new))
