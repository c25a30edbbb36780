# SPDX-License-Identifier: Apache-2.0
"""Every place that deletes rows, and what decides there. A new one has to be added here."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import watcher_sync
from watcher_sync.cmd.database import db_purge
from watcher_sync.engine.retention import RetentionWorker
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.extensions.webhooks.writer import Purger
from watcher_sync.storage.stored.parking import expire_parked
from watcher_sync.storage.stored.retention import purge

ROOT = Path(watcher_sync.__file__).parent

BY_AGE = {
    ("storage/stored/parking.py", "expire_parked"),
    ("storage/stored/retention.py", "_purge_journal"),
    ("storage/stored/retention.py", "_purge_older"),
    ("extensions/webhooks/worker_rows.py", "purge"),
}
"""They compare the time of a row with a time."""

OTHERS = {
    ("commit/entity_repair.py", "undelete"): "the entity that an operator names",
    ("extensions/webhooks/shards.py", "_bury"): "workers without a heartbeat, by the monotonic clock",
    ("extensions/webhooks/shards.py", "leave"): "the worker itself",
    ("extensions/openstack/reconcile/writer.py", "restore"): "entities that exist",
    ("storage/drifts.py", "_replace"): "differences that are gone",
    (
        "storage/groups/engines.py",
        "write_engine",
    ): "engines without a heartbeat for an hour, by the time of the engine's row, and its predecessors",
    ("storage/drifts.py", "_forget"): "differences that are healed",
    ("storage/epochs.py", "_remove_beyond_head"): "rows beyond the journal's head, which no commit has",
    ("storage/groups/source_status.py", "forget_inventory"): "the source that is gone",
    ("storage/groups/operation_leases.py", "forget"): "the holder's own lease",
    ("storage/groups/operation_leases.py", "forget_absent"): "leases of entities that are gone",
    ("storage/stored/quarantine.py", "drop"): "the events that an operator names",
    ("storage/stored/quotas.py", "drop_oldest"): "the number and size of events",
    ("storage/stored/retention.py", "_delete"): "the number of events",
    ("storage/groups/removed_sources.py", "forget_rows"): "a source that is removed, which an operator names",
    ("storage/groups/removed_sources.py", "forget_tombstones"): "entities of a source that an operator names",
    ("extensions/watch/topic_rows.py", "delete"): "the topic that a user names",
}


def deletions() -> Iterator[tuple[str, str]]:
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if "/migrations/" in name:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "sa.delete":
                    yield name, function.name


@pytest.mark.slow
def test_every_deletion_is_listed_with_what_decides():
    assert set(deletions()) == BY_AGE | OTHERS.keys()


def test_each_deletion_by_age_has_the_time_that_the_database_vouches_for():
    for caller in (RetentionWorker.purge_now, Purger._purge, db_purge):
        assert "time.read()" in inspect.getsource(caller), caller
    for callee, caller in (
        (purge, RetentionWorker.purge_now),
        (expire_parked, RetentionWorker.purge_now),
        (WebhookStore.purge, Purger._purge),
        (purge, db_purge),
    ):
        assert f"{callee.__name__}(" in inspect.getsource(caller)
