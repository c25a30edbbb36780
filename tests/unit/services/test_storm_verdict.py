# SPDX-License-Identifier: Apache-2.0
"""The verdict after a storm names what is wrong with the feed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.storm.readers import FeedReader
from tests.faults.storm.verdict import Verdict, check_feed
from tests.simulated import NOON
from watcher_sync.storage.writing.journal import JournalRow


def rows(*seqs: int) -> list[JournalRow]:
    """Changes with these seqs, and a row that only raised a version, which is not in the feed."""
    return [*(row(seq, "created", {"name": (None, "n")}) for seq in seqs), row(max(seqs) + 1, "updated", {})]


def row(seq: int, change: str, delta: dict[str, Any]) -> JournalRow:
    """One row of the journal."""
    return JournalRow(
        seq=seq, time=NOON, kind="pod", entity_id=f"p{seq}", change=change, delta=delta, versions={"state": "1"},
        event_id=f"e{seq}", event_type="test", source="edge", merged=1,
    )  # fmt: skip


def feed(*seqs: int, gone: str = "") -> FeedReader:
    """A reader that got these."""
    reader = FeedReader("http://localhost")
    reader.rows = [(seq, "pod", f"p{seq}", "created") for seq in seqs]
    reader.since = 1_000
    reader.gone = [gone] if gone else []
    return reader


def failures(reader: FeedReader, journal: list[JournalRow]) -> list[str]:
    verdict = Verdict()
    check_feed(verdict, reader, journal)
    return verdict.failures


def test_a_feed_with_every_change_once_in_order_is_right() -> None:
    assert failures(feed(1, 2, 3), rows(1, 2, 3)) == []


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ((1, 3), "1 missing [2], 0 extra [], 0 repeated [] rows; in order: True"),
        ((1, 2, 2, 3), "0 missing [], 0 extra [], 1 repeated [2] rows; in order: True"),
        ((1, 3, 2), "0 missing [], 0 extra [], 0 repeated [] rows; in order: False"),
        ((0, 1, 2, 3), "0 missing [], 1 extra [0], 0 repeated [] rows; in order: True"),
    ],
)
def test_a_feed_that_differs_from_the_journal_is_described(got: tuple[int, ...], says: str) -> None:
    (failure,) = failures(feed(*got), rows(1, 2, 3))
    assert failure.endswith(says)


def test_a_change_after_the_journal_was_read_is_no_difference() -> None:
    assert failures(feed(1, 2, 3, 9), rows(1, 2, 3)) == []


def test_after_a_reported_410_the_feed_may_lack_changes() -> None:
    assert failures(feed(1, 3, gone="of another journal"), rows(1, 2, 3)) == []
