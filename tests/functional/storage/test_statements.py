# SPDX-License-Identifier: Apache-2.0
"""What reaches a table is what the model holds, however a database takes its rows."""

from __future__ import annotations

import datetime
import itertools

import msgspec
import pytest

from tests.functional.storage.writing import commit, cycle_on, journal, meter, rows
from tests.simulated import told, whole
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert

TEXTS = [
    "",
    "it's",
    'a "quoted" one',
    "back\\slash",
    "\\u0041",
    "%s and %%",
    "{}",
    "null",
    "žluťoučký",
    "🦀",
    "a\tb\nc\r\n\\.\n",
    "\\N",
    "\\.",
    " ",
]


@pytest.mark.parametrize("alone", [False, True])
def test_texts_that_mean_something_to_json_or_sql_are_written_as_they_are(store, alone):
    cycle = cycle_on(store)
    events = [told(i, meter(f"m{i}", owner=text)) for i, text in enumerate(TEXTS)]
    for batch in [[event] for event in events] if alone else [events]:
        cycle.run(Batch(events=batch))
    assert {row.id: row.owner for row in rows(store, "meters")} == {f"m{i}": text for i, text in enumerate(TEXTS)}
    assert whole(store.load()) == whole(cycle.model)


@pytest.mark.parametrize("alone", [False, True])
def test_the_journal_has_the_same_texts_and_the_time_of_the_commit(store, alone):
    now = datetime.datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=datetime.UTC)
    store._now = lambda: now
    cycle = cycle_on(store)
    events = [msgspec.structs.replace(told(i, meter(f"m{i}", owner=text)), id=text) for i, text in enumerate(TEXTS)]
    for batch in [[event] for event in events] if alone else [events]:
        commit(cycle, *batch)
    written = journal(store)
    assert [(row.event_id, row.delta["owner"]) for row in written] == [(text, [None, text]) for text in TEXTS]
    assert {row.time for row in written} == {now}


def test_numbers_keep_every_digit(store):
    readings = (0, -1, 2**53 + 1, 2**63 - 1, -(2**63))
    ratios = (0.1, 1.0, 1e-300, 1.7976931348623157e308, -2.5)
    expected = {f"m{number:02}": pair for number, pair in enumerate(itertools.product(readings, ratios))}
    cycle = cycle_on(store)
    for number, (entity_id, (reading, ratio)) in enumerate(expected.items()):
        cycle.run(Batch(events=[told(number, meter(entity_id, reading=reading, ratio=ratio))]))
    assert {row.id: (row.reading, row.ratio) for row in rows(store, "meters")} == expected


def test_times_keep_their_microseconds_and_their_zone(store):
    times = [
        datetime.datetime(year, 3, 1, 12, 0, 0, microsecond, tzinfo=datetime.UTC)
        for year in (1971, 2026, 9000)
        for microsecond in (0, 1, 999_999)
    ]
    cycle, output = cycle_on(store), {"output_spec": {"a": ['"', None]}}
    for number, time in enumerate(times):
        fields = {"status": {"status": "RUNNING", "status_updated_at": time}, "output": output, "spec": {"spec": {}}}
        cycle.run(Batch(events=[told(number, Upsert("service_type_instance", f"i{number}", "1", fields))]))
    model = store.load()
    loaded = [model.get("service_type_instance", f"i{number}") for number in range(len(times))]
    assert [(one.status_updated_at, one.output_spec) for one in loaded] == [(t, output["output_spec"]) for t in times]
    assert whole(model) == whole(cycle.model)
