# SPDX-License-Identifier: Apache-2.0
"""Subjects, headers, and which changes a server stores together."""

from __future__ import annotations

import datetime

import pytest

from watcher_sync.extensions.log.base import (
    CREATED,
    DELETED,
    SNAPSHOT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    UPDATED,
    LogChange,
)
from watcher_sync.extensions.log.nats_jetstream.messages import batches_of, headers_of, subject_of

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
PREFIX = "watcher-sync.north"


def change(seq: int = 7, what: str = UPDATED, *, id: str = "i-1", ends_commit: bool = True) -> LogChange:
    kind = "" if what in (SNAPSHOT_BEGIN, SNAPSHOT_END) else "instance"
    return LogChange(
        partition="north", epoch="e", seq=seq, change=what, kind=kind, id=id, time=NOW, ends_commit=ends_commit
    )


@pytest.mark.parametrize(
    ("made", "subject"),
    [
        (change(id="0b1c-A_9"), "watcher-sync.north.instance.0b1c-A_9"),
        (change(id="a" * 128), f"watcher-sync.north.instance.{'a' * 128}"),
        (change(id="a" * 129), "watcher-sync.north.instance.=c12cb024a2e5551cca0e08fce8f1c5e3"),
        (change(id="edge/ns/po.d"), "watcher-sync.north.instance.=1bdcc28da3edb3c3cebc18bb63355e32"),
        (change(what=SNAPSHOT_BEGIN), "watcher-sync.north._snapshot.begin"),
        (change(what=SNAPSHOT_END), "watcher-sync.north._snapshot.end"),
    ],
)
def test_a_subject_has_the_id_or_where_that_is_no_token_its_digest(made: LogChange, subject: str) -> None:
    assert subject_of(PREFIX, made) == subject


@pytest.mark.parametrize("what", [SNAPSHOT_BEGIN, SNAPSHOT, SNAPSHOT_END])
def test_the_parts_of_a_snapshot_have_one_position_and_so_no_message_id(what: str) -> None:
    headers = headers_of(change(what=what), deletion_ttl=60)
    assert headers == {
        "Watcher-Sync-Partition": "north",
        "Watcher-Sync-Position": "e:7",
        "Watcher-Sync-Time": "2026-01-02T00:00:00+00:00",
        "Watcher-Sync-Change": what,
    }


def test_only_a_deletion_has_a_time_to_live() -> None:
    common = {
        "Watcher-Sync-Partition": "north",
        "Watcher-Sync-Position": "e:7",
        "Watcher-Sync-Time": "2026-01-02T00:00:00+00:00",
        "Nats-Msg-Id": "e:7",
    }
    deleted = change(what=DELETED)
    assert headers_of(change(what=CREATED), deletion_ttl=60) == common | {"Watcher-Sync-Change": "created"}
    assert headers_of(deleted, deletion_ttl=0) == common | {"Watcher-Sync-Change": "deleted"}
    assert headers_of(deleted, deletion_ttl=60) == common | {"Watcher-Sync-Change": "deleted", "Nats-TTL": "60s"}


def sizes(commits: list[int]) -> list[int]:
    """The sizes of the atomic batches of commits of these sizes."""
    changes = [change(ends_commit=n == size) for size in commits for n in range(1, size + 1)]
    batches = list(batches_of(changes, atomic=True))
    assert [each for batch in batches for each in batch] == changes
    return [len(batch) for batch in batches]


@pytest.mark.parametrize(
    ("commits", "batches"),
    [
        ([1], [1]),
        ([3, 2], [5]),
        ([1000], [1000]),
        ([600, 400, 1], [1000, 1]),
        ([600, 500, 500], [600, 1000]),
        ([1, 1001], [1, 1000, 1]),
        ([2500, 3], [1000, 1000, 503]),
    ],
)
def test_a_batch_has_whole_commits_and_at_most_a_thousand_messages(commits: list[int], batches: list[int]) -> None:
    assert sizes(commits) == batches


def test_without_atomic_batches_each_message_is_alone() -> None:
    changes = [change(seq, ends_commit=seq == 3) for seq in (1, 2, 3)]
    assert list(batches_of(changes, atomic=False)) == [[each] for each in changes]
