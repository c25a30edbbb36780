# SPDX-License-Identifier: Apache-2.0
"""What senders can make the process hold is bounded in bytes, and what is beyond the bound is accounted for."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading

import pytest

from tests.simulated import event, new_model
from tests.waiting import deadline
from watcher_sync.engine.intake import Intake, IntakeLimits, size_of
from watcher_sync.events import EXCERPT_BYTES, portions
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.model.transaction import Transaction
from watcher_sync.wire.envelopes import read_body, read_message
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES

MIB = 2**20

_MANY_LARGE_BODIES = """
import resource, sys
import sqlalchemy as sa
from oslo_config import cfg
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.intake import Intake, IntakeLimits
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.conf import opts
from watcher_sync.storage.database import database
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.store import Store
from watcher_sync.wire.envelopes import read_body

class Source:
    name, waits_for_ack = "test", False

conf = cfg.ConfigOpts()
opts.register_database(conf)
conf([], default_config_files=[], default_config_dirs=[])
conf.set_override("connection", sys.argv[1], group="database")
store = Store(database.open_database(conf), builtin_kinds())
schema.upgrade(store.database, store.tables)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
intake = Intake(IntakeLimits(max_bytes_in_hand=2**26))
emit = intake.emitter(Source())
for number in range(12):
    emit([read_body(b'{"a": "%b"}' % (b"%d" % number * 50_000_000)[:50_000_000], source="test", number=number)])
events = [event for _, found in intake.take(5000, linger=0, timeout=0) for event in found]
CommitCycle(store, store.load(), Dispatcher([])).run(Batch(events=events))
with store.database.connect() as connection:
    rows = connection.execute(sa.text("SELECT COUNT(*) FROM quarantine")).scalar_one()
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_twelve_bodies_of_50_mb_cost_the_memory_of_a_few(tmp_path):
    arguments = [sys.executable, "-c", _MANY_LARGE_BODIES, f"sqlite:///{tmp_path / 'a.sqlite'}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=deadline(60))
    rows, mebibytes = map(int, done.stdout.split())
    assert rows == 12
    assert mebibytes < 200, f"the peak grew by {mebibytes} MiB"


@pytest.mark.parametrize("headers", [None, {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}])
def test_a_body_above_the_limit_is_an_excerpt_with_a_digest_and_is_not_decoded(headers):
    body = b'{"a": "' + b"x" * MIB + b'"}'
    found = read_message(body, headers, source="test", number=7, max_size=MIB)
    assert found.data == body[:EXCERPT_BYTES]
    assert (found.size, found.whole_size) == (EXCERPT_BYTES, len(body))
    assert found.digest == hashlib.sha256(body).hexdigest()
    assert found.undecodable == f"{len(body)} bytes are more than the {MIB} allowed"


def test_two_large_bodies_without_an_id_differ_by_what_the_excerpt_does_not_show():
    one, other = (read_body(b" " * MIB + tail, source="test") for tail in (b"1", b"2"))
    assert one.data == other.data
    assert one.id != other.id


def test_an_event_knows_the_bytes_of_its_message():
    body = b'{"event_type": "a.b", "publisher_id": "p", "payload": {"x": 1}}'
    assert read_body(body, source="test").size == len(body)
    assert read_body(b"no JSON", source="test").size == len(b"no JSON")


class Named:
    """As much of a source as the intake sees."""

    waits_for_ack = False

    def __init__(self, name):
        self.name = name


def sized(number, size):
    return event(number, size=size)


def test_a_source_waits_while_its_bytes_are_in_hand_and_another_does_not():
    intake, large, small = Intake(IntakeLimits(max_bytes_in_hand=10 * MIB)), Named("large"), Named("small")
    emit = intake.emitter(large)
    emit([sized(1, 6 * MIB)])
    emitted = threading.Event()
    thread = threading.Thread(target=lambda: (emit([sized(2, 6 * MIB)]), emitted.set()), daemon=True)
    thread.start()
    intake.emitter(small)([sized(3, 9 * MIB)])
    assert not emitted.wait(0.1)
    assert intake.bytes_in_hand() == {"large": 6 * MIB, "small": 9 * MIB}
    for source, events in intake.take(100, linger=0, timeout=0):
        intake.done(source, events)
    assert emitted.wait(deadline(60))
    thread.join(deadline(30))
    assert intake.bytes_in_hand() == {"large": 6 * MIB}


def test_one_event_larger_than_the_limit_passes_alone():
    intake, source = Intake(IntakeLimits(max_bytes_in_hand=MIB)), Named("a")
    intake.emitter(source)([sized(1, 50 * MIB)])
    assert size_of(intake.take(100, linger=0, timeout=0, most_bytes=MIB)[0][1]) == 50 * MIB


def test_a_batch_ends_at_its_bytes_and_the_shares_of_the_sources_are_equal_in_bytes():
    intake, large, small = Intake(IntakeLimits(max_bytes_in_hand=2**26)), Named("large"), Named("small")
    intake.emitter(large)([sized(n, MIB) for n in range(20)])
    intake.emitter(small)([sized(n, 100) for n in range(50)])
    taken = intake.take(500, linger=0, timeout=0, most_bytes=8 * MIB)
    by_source = {source.name: 0 for source, _ in taken}
    for source, events in taken:
        by_source[source.name] += len(events)
    assert by_source == {"large": 8, "small": 50} or by_source == {"large": 7, "small": 50}
    assert intake.bytes_waiting() == (20 - by_source["large"]) * MIB


def test_events_are_passed_on_in_portions_of_bounded_bytes():
    found = list(portions([sized(n, 3 * MIB) for n in range(5)], 100, 4 * MIB))
    assert [len(portion) for portion in found] == [2, 2, 1]
    assert [len(portion) for portion in portions([sized(n, 10) for n in range(5)], 2)] == [2, 2, 1]


def test_a_field_that_is_too_large_is_refused_by_its_name_and_the_rest_of_the_batch_is_applied():
    model, document = new_model(), {"x": "y" * MAX_DOCUMENT_BYTES}
    refused = Upsert("service_type_instance", "a", "1", {"spec": {"service_type": "vm", "spec": document}})
    good = Upsert("service_type_instance", "b", "1", {"spec": {"service_type": "vm", "spec": {"x": "y" * 500_000}}})
    transaction = Transaction(model)
    with pytest.raises(InvalidEvent, match=r"service_type_instance: spec has \d+ bytes as JSON, 524288 are allowed"):
        transaction.apply(event(1, size=600_000), [refused])
    assert transaction.apply(event(2, size=600_000), [good]) is Outcome.APPLIED
    with pytest.raises(InvalidEvent, match="spec has"):
        transaction.apply(event(3), [refused])
