# SPDX-License-Identifier: Apache-2.0
"""The database is away for long, and the NATS server is killed, while events flow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.functional.dcm.flowing import KIND, Flow, committed, flowing, passed, worked_off
from tests.functional.engine.driving import Installation
from tests.functional.engine.proxy import CountingProxy
from tests.functional.sources.jetstream import Dcm
from tests.services.servers import Server
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until

Site = Callable[..., Installation]

OUTAGE = float(os.environ.get("WATCHER_SYNC_TEST_OUTAGE", "30"))
"""Seconds that the database is away."""


@pytest.mark.rare
def test_a_database_outage_loses_and_redelivers_nothing_and_sees_under_one_attempt_a_second(
    own_postgresql: Server, site: Site, dcm: Dcm, figure: Callable[[str], None]
) -> None:
    """The outage is three times as long as the server waits for an ack: what is in hand is prolonged."""
    rate = 300
    flow = Flow(seed=30, rows=500, messages=int(rate * (OUTAGE + 6)))
    with CountingProxy(own_postgresql.port) as proxy:
        made = site(own_postgresql.url, engine__batch_size=100, source_dcm__ack_wait=max(1.0, OUTAGE / 3))
        flow.make_rows(made)
        url = sa.make_url(own_postgresql.url).set(port=proxy.port)
        made.options["database.connection"] = url.render_as_string(hide_password=False)
        engine = made.engine(made.config())
        engine.wait_for_log("source dcm: connected")
        workers, head = engine.workers, made.head()
        with flowing(dcm, flow.messages, rate=rate):
            wait_until(lambda: made.head() > head + 100, what="load")
            own_postgresql.stop()
            made.store.database.dispose()
            engine.wait_for_log("The database is unavailable")
            before = proxy.attempts
            began = time.monotonic()
            passed(OUTAGE)
            away, attempts = time.monotonic() - began, proxy.attempts - before
            held = dcm.consumer()
            assert held.num_ack_pending > 0
            own_postgresql.start()
            returned = time.monotonic()
            head = made.head()
            wait_until(lambda: made.head() > head, what="a commit after the outage")
            back = time.monotonic() - returned
        figure(
            f"{attempts} attempts in {away:.1f} s, first commit {back:.1f} s after it, {held.num_ack_pending} in hand"
        )
        worked_off(dcm, len(flow.messages))
        assert dcm.consumer().delivered.consumer_seq == len(flow.messages), "some were delivered again"
        assert 1 <= attempts < away
        assert engine.workers == workers, "the worker did not recover, it was replaced"
        assert engine.logged("The database is unavailable") == engine.logged("The database has recovered") == 1
        assert engine.terminate()[0] == 0, engine.log[-4000:]
        flow.check(made)
        told = sum(row.merged for row in made.rows() if row.kind == KIND and row.event_id.startswith("event-"))
        assert told == len(flow.messages), "an event was counted twice, or not at all"


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.rare)])
def test_a_commit_follows_the_return_of_a_nats_server_killed_under_load(
    sqlite_url: str, site: Site, own_nats: Server, dcm: Dcm, figure: Callable[[str], None], kills: int
) -> None:
    flow = Flow(seed=31, rows=500, messages=3_000 * kills)
    made = site(sqlite_url, source_dcm__ack_wait=2)
    flow.make_rows(made)
    engine = made.engine(made.config())
    engine.wait_for_log("source dcm: connected")
    pauses = []
    enough = threading.Event()
    # So slow until the last return that there is load for as long as the waits below may take.
    rate = len(flow.messages) / kills / deadline(PATIENCE_SECONDS)
    with flowing(dcm, flow.messages, rate=rate, surely=True, hurry=enough) as done:
        for _ in range(kills):
            head = made.head()
            wait_until(lambda head=head: made.head() > head + 100, what="load")
            lost = engine.logged("source dcm: disconnected: ")
            own_nats.kill()
            wait_until(lambda lost=lost: engine.logged("source dcm: disconnected: ") > lost, what="the loss")
            head = made.head()
            own_nats.start()
            returned = time.monotonic()
            # What the engine had in hand it commits without the server: only what came later counts.
            stored = dcm.stream().state.last_seq
            wait_until(lambda head=head, stored=stored: committed(made, head) > stored, what="a commit of a new event")
            pauses.append(time.monotonic() - returned)
            assert not done.is_set(), "there is no load any more"
        enough.set()
    figure("first commits " + ", ".join(f"{pause:.2f} s" for pause in pauses) + " after the return")
    worked_off(dcm, len(flow.messages))
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    flow.check(made)
