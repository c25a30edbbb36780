# SPDX-License-Identifier: Apache-2.0
"""An upgrade from the last release: its code makes the schema and the rows, and this code continues.

The last release is the newest tag in the history. Before the first tag, the last commit takes its part.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation
from watcher_sync.testing.nova.cloud import CloudSimulator

pytestmark = [pytest.mark.rare, pytest.mark.timeout(300)]

_ROOT = Path(__file__).parents[3]


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the last release."""
    tags = git("tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "[0-9]*").decode().split()
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=io.BytesIO(git("archive", tags[0] if tags else "HEAD", "watcher_sync"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("database", ["sqlite_url", "postgresql_url", "mariadb_url"])
def test_the_rows_of_the_last_release_are_read_and_continued_and_it_works_on_until_the_contraction(
    install: Callable[..., Installation], release: Path, request: pytest.FixtureRequest, database: str
) -> None:
    site = install(request.getfixturevalue(database))
    cloud = CloudSimulator(seed=18, hosts=5, instances=40)
    parts = []
    for number in (1, 2, 3):
        parts.append(site.folder / f"part-{number}.jsonl")
        parts[-1].write_text("".join(json.dumps(document) + "\n" for document in cloud.history(400)))

    def old(*arguments: object) -> str:
        site.environment["PYTHONPATH"] = str(release)
        try:
            return site.manage(*arguments)
        finally:
            del site.environment["PYTHONPATH"]

    old("db_sync")
    assert json.loads(old("replay", parts[0]))["read"] == 400
    plan = site.manage("db_sync", "--dry-run")
    site.manage("db_sync")
    assert json.loads(site.manage("replay", parts[1]))["read"] == 400
    assert json.loads(old("replay", parts[2]))["read"] == 400, "the release works on the newer schema"
    assert old("model", "dump", "--kind", "instance") == site.manage("model", "dump", "--kind", "instance")
    site.manage("db_sync", "--contract")
    if "migrate to" in plan:
        site.environment["PYTHONPATH"] = str(release)
        refused = site.run("watcher-sync-manage", "model", "dump", "--kind", "instance")
        assert refused.returncode == 1
        assert "install the newer release" in refused.stderr
    site.check(cloud.reported())
