# SPDX-License-Identifier: Apache-2.0
"""An upgrade to the next release: this release makes the schema and the rows, and the next one continues."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.engine.next_release import NextRelease
from watcher_sync.storage.schema import schema
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.mark.rare
@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", ["sqlite_url", "postgresql_url", "mariadb_url"])
def test_the_next_release_continues_the_rows_and_this_one_works_on_until_the_contraction(
    install: Callable[..., Installation], request: pytest.FixtureRequest, database: str
) -> None:
    site = install(request.getfixturevalue(database))
    following = NextRelease(site.folder / "next")
    cloud = CloudSimulator(seed=18, hosts=5, instances=40)
    parts = []
    for number in (1, 2, 3):
        parts.append(site.folder / f"part-{number}.jsonl")
        parts[-1].write_text("".join(json.dumps(document) + "\n" for document in cloud.history(400)))

    def next_release(*arguments: object) -> str:
        with following.installed(site):
            return site.manage(*arguments)

    site.manage("db_sync")
    assert json.loads(site.manage("replay", parts[0]))["read"] == 400
    with following.installed(site):
        early = site.run("watcher-sync-manage", "replay", parts[1])
    assert (early.returncode, "run watcher-sync-manage db_sync" in early.stderr) == (1, True)
    assert next_release("db_sync", "--dry-run").startswith(f"migrate to {following.revision}")
    assert following.revision in next_release("db_sync")
    assert json.loads(next_release("replay", parts[1]))["read"] == 400
    assert json.loads(site.manage("replay", parts[2]))["read"] == 400, "this release works on the newer schema"
    dump = ("model", "dump", "--kind", "instance")
    assert site.manage(*dump) == next_release(*dump)
    assert f"before revision {following.revision} are refused" in next_release("db_sync", "--contract")
    refused = site.run("watcher-sync-manage", *dump)
    assert refused.returncode == 1
    assert f"this release has {schema.HEAD}: install the newer release" in refused.stderr
    assert next_release(*dump)
    site.check(cloud.reported())
