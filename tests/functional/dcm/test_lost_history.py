# SPDX-License-Identifier: Apache-2.0
"""Engines whose stream was restored from an older copy, or discarded what they had not read, or that are rewound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.dcm.flowing import Flow, flood, worked_off
from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm, back_up, dcm_of, restore
from tests.services.servers import Server
from tests.waiting import wait_until

Site = Callable[..., Installation]
LOT = 200


def stored(dcm: Dcm, messages: int) -> None:
    wait_until(lambda: dcm.stream().state.last_seq == messages, what="everything to be in the stream")
    wait_until(dcm.settled, 120, "everything to be committed and acknowledged")


@pytest.mark.parametrize(
    "stopped",
    [pytest.param(True, id="engine stopped"), pytest.param(False, id="engine running", marks=pytest.mark.rare)],
)
def test_a_stream_restored_from_an_older_copy_ends_in_the_truth_and_is_reported(
    own_nats: Server, sqlite_url: str, site: Site, dcm: Dcm, tmp_path: Path, stopped: bool
) -> None:
    """The messages that the copy lacks are in the tables; those that come later win, with their lower sequences."""
    flow = Flow(seed=16, rows=100, messages=3 * LOT + LOT // 2)
    made = site(sqlite_url)
    flow.make_rows(made)
    config = made.config()
    engine = made.engine(config)
    engine.wait_for_log("source dcm: connected")
    flood(dcm, flow.messages[:LOT])
    stored(dcm, LOT)
    back_up(own_nats, tmp_path / "copy")
    flood(dcm, flow.messages[LOT : 2 * LOT])
    stored(dcm, 2 * LOT)
    if stopped:
        assert engine.terminate()[0] == 0, engine.log[-4000:]
    own_nats.stop()
    restore(own_nats, tmp_path / "copy")
    flood(dcm, flow.messages[2 * LOT :])
    if stopped:
        engine = made.engine(config)
    stored(dcm, 2 * LOT + LOT // 2)
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    flow.check(made)
    reported = sum(each.logged("the stream dcm-status was restored from an older copy") for each in made.engines)
    assert reported == 1, engine.log[-4000:]


def test_1500_unread_messages_that_a_stream_discarded_are_reported_and_counted(
    own_nats: Server, sqlite_url: str, site: Site
) -> None:
    flow = Flow(seed=17, rows=100, messages=2100)
    with dcm_of(own_nats.url) as dcm:
        dcm.make_stream(max_msgs=500)
        made = site(sqlite_url)
        flow.make_rows(made)
        config = made.config()
        engine = made.engine(config)
        flood(dcm, flow.messages[:100])
        stored(dcm, 100)
        assert engine.terminate()[0] == 0, engine.log[-4000:]
        flood(dcm, flow.messages[100:])
        wait_until(lambda: dcm.stream().state.last_seq == 2100)
        engine = made.engine(config)
        stored(dcm, 2100)
        assert engine.terminate()[0] == 0, engine.log[-4000:]
    reported = [line for line in engine.log.splitlines() if "events are lost" in line]
    assert len(reported) == 1, reported
    assert "WARNING" in reported[0]
    assert "source dcm: " in reported[0]
    assert (
        "the stream dcm-status discarded 1500 messages before they were read, in sequences 101 to 1600" in reported[0]
    )
    made.check_journal()


def test_a_rewind_reads_the_stream_again_and_changes_nothing(sqlite_url: str, site: Site, dcm: Dcm) -> None:
    flow = Flow(seed=18, rows=50, messages=LOT)
    made = site(sqlite_url)
    flow.make_rows(made)
    config = made.config()
    engine = made.engine(config)
    flood(dcm, flow.messages)
    worked_off(dcm, LOT)
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    head, before = made.head(), dcm.consumer()
    assert "reads from first" in made.manage("source", "rewind", "dcm", "--to", "first")
    engine = made.engine(config)
    engine.wait_for_log("source dcm: connected")
    wait_until(dcm.settled)
    assert dcm.consumer().created != before.created
    assert dcm.consumer().delivered.consumer_seq >= LOT
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    assert made.head() == head
    flow.check(made)
    refused = made.run("watcher-sync-manage", "source", "rewind", "dcm", "--to", "yesterday")
    assert (refused.returncode, "neither first, nor a sequence" in refused.stderr) == (2, True), refused.stderr
