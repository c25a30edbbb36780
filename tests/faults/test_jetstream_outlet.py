# SPDX-License-Identifier: Apache-2.0
"""Publishers on JetStream are killed and frozen, and the nodes of a cluster are killed in turn.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number of kills.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.errors import Error as NatsError

from tests.faults.jetstream_publisher import DEPOSED, ENTITIES, FIRST
from tests.functional.log.jetstream_streams import PARTITION, LogReader, at, log_of, make_outlet, snapshot
from tests.functional.log.publishing import publish
from tests.functional.sources.jetstream import dcm_of
from tests.services.servers import Server, nats_programs, private_nats, private_nats_cluster
from tests.waiting import deadline, wait_until

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20"))
ROUNDS_PER_NODE = 6
PROGRESS = 30
"""Messages that each round adds at least."""
ENDLESS = 10**9


@contextmanager
def publishing(nodes: Sequence[Server], log: LogReader, until: int, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A publisher process, which is killed at the end if it still runs."""
    servers = ",".join(node.url for node in nodes)
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.jetstream_publisher"]
    with output.open("ab") as out:
        process = subprocess.Popen(
            [*command, servers, log.name, str(len(nodes)), str(until)], cwd=ROOT, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(deadline(60))


def state(log: LogReader) -> dict[str, Any]:
    """What the stream has; empty while no server answers."""
    with suppress(NatsError, TimeoutError):
        request = log.client.client.request(f"$JS.API.STREAM.INFO.{log.name}", timeout=deadline(0.5))
        return dict(msgspec.json.decode(log.client.do(request).data).get("state", {}))
    return {}


def last_seq(log: LogReader) -> int:
    return int(state(log).get("last_seq", 0))


def advances(log: LogReader, messages: int = PROGRESS) -> int:
    """Wait until the stream has more; its last sequence."""
    begin = wait_until(lambda: last_seq(log), 120, "the stream")
    return int(wait_until(lambda: (n := last_seq(log)) >= begin + messages and n, 120, "its progress"))


def check_each_once_in_order(log: LogReader, until: int) -> int:
    """That the stream has the snapshot and each seq once, and the model the last of each entity; how many it has."""
    records = log.changes()
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))
    markers = [record.headers["Watcher-Sync-Change"] for record in records]
    whole = len(markers) - markers[::-1].index("snapshot_begin") - 1
    end = whole + ENTITIES + 1
    assert set(markers[:whole]) <= {"snapshot_begin", "snapshot"}  # begun by publishers that were killed
    assert markers[end] == "snapshot_end"
    assert [record.position for record in records[end + 1 :]] == list(range(FIRST + 1, until + 1))
    wait_until(lambda: log.state(log.model_name).last_seq == len(records))
    last = {record.subject: record.data for record in records}
    model = log.read(log.model_name)
    assert {record.subject: record.data for record in model} == last
    assert len(model) == ENTITIES + 2
    return len(records)


@pytest.mark.timeout(240 + 30 * KILLS)
@pytest.mark.parametrize("program", nats_programs())
def test_twenty_kills_of_the_publisher_and_of_each_node_lose_and_repeat_nothing(
    program: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    output = tmp_path / "output"
    with private_nats_cluster(3, program) as nodes, dcm_of(nodes[0].url) as client, log_of(client) as log:
        for number in range(KILLS):
            with publishing(nodes, log, ENDLESS, output) as publisher:
                advances(log)
                if number % ROUNDS_PER_NODE == ROUNDS_PER_NODE - 1:
                    node = nodes[number // ROUNDS_PER_NODE % 3]
                    node.kill()
                    advances(log)
                    node.start()
                assert publisher.poll() is None
        until = last_seq(log) // 3 * 3 + PROGRESS * 2
        with publishing(nodes, log, until, output) as publisher:
            assert publisher.wait(deadline(120)) == 0
        last = log.changes()[-1].position
        records = check_each_once_in_order(log, last)
        outlet = make_outlet([node.url for node in nodes], log.name)
        assert outlet.open({}) == {PARTITION: at(last)}
        publish(outlet, snapshot(last, "i-1"))
        wait_until(lambda: set(log.model()) == {"_snapshot.begin", "instance.i-1", "_snapshot.end"})
        outlet.close()
    errors = output.read_text().splitlines()
    figure(f"{KILLS} kills, {records} messages, {len(errors)} errors of publishers: {sorted(set(errors))[:5]}")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", nats_programs())
def test_a_publisher_that_was_frozen_while_another_one_published_is_refused(
    program: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    output, others = tmp_path / "frozen", tmp_path / "others"
    with private_nats(executable=program) as node, dcm_of(node.url) as client, log_of(client) as log:
        with publishing([node], log, ENDLESS, output) as frozen:
            advances(log)
            frozen.send_signal(signal.SIGSTOP)
            with publishing([node], log, ENDLESS, others):
                advances(log, 30 * PROGRESS)  # for longer than the server remembers message ids
                frozen.send_signal(signal.SIGCONT)
                assert frozen.wait(deadline(60)) == DEPOSED
                advances(log)
        check_each_once_in_order(log, log.changes()[-1].position)
    refusal = output.read_text()
    assert "the server answers ours: wrong last sequence: " in refusal
    assert "(10071)" in refusal
    figure(refusal.strip())
