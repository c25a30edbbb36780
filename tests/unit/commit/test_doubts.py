# SPDX-License-Identifier: Apache-2.0
"""The cycle hands over which entities a committed batch marked as doubtful."""

from __future__ import annotations

from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.doubts import Doubts
from watcher_sync.model.changes import Doubtful, Upsert


def test_the_cycle_hands_the_marks_over_after_the_commit(store):
    doubts = Doubts()
    cycle = CommitCycle(store, store.load(), telling(), CommitOptions(doubts=doubts))
    cycle.run(
        Batch(
            events=[
                told(1, Upsert("instance", "i", "1", {"state": {}}), Doubtful("instance", "i")),
                told(2, Doubtful("instance", "j")),
            ]
        )
    )
    assert doubts.take("instance", 10) == ["i", "j"]
    assert doubts.count("instance") == 0
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(3, Doubtful("instance", "j"))]))
