# SPDX-License-Identifier: Apache-2.0
"""A next release: a copy of this package with one migration more, which does what a migration may do."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import watcher_sync
from tests.functional.engine.driving import Installation
from watcher_sync.storage.schema import schema

_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = {revision!r}
down_revision = {before!r}


def upgrade():
    op.add_column("journal", sa.Column("of_the_next_release", sa.String(32)))
    op.add_column("journal_head", sa.Column("of_the_next_release", sa.String(32)))
    op.add_column("instances", sa.Column("of_the_next_release", sa.BigInteger, nullable=False, server_default="7"))
    op.add_column("leases", sa.Column("of_the_next_release", sa.String(32)))
    op.create_table("of_the_next_release", sa.Column("id", sa.BigInteger, primary_key=True))
    op.create_index("ix_of_the_next_release", "instances", ["of_the_next_release"])
"""

_HEAD = 'HEAD: Final = "{}"'


class NextRelease:
    """The package of the next release, in a folder that is to be on ``PYTHONPATH``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.revision = f"{int(schema.HEAD) + 1:04}"
        source = Path(watcher_sync.__file__).parent
        package = folder / source.name
        shutil.copytree(source, package)  # with what is compiled, which is valid for the copies
        storage = package / "storage" / "schema"
        migration = _MIGRATION.format(revision=self.revision, before=schema.HEAD)
        (storage / "migrations" / "versions" / f"{self.revision}_next.py").write_text(migration)
        module = storage / "schema.py"
        text = module.read_text()
        assert _HEAD.format(schema.HEAD) in text
        module.write_text(text.replace(_HEAD.format(schema.HEAD), _HEAD.format(self.revision)))

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
