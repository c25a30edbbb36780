# SPDX-License-Identifier: Apache-2.0
"""A row says what its entity says, whether it was written whole or by the facets that changed."""

from __future__ import annotations

import sqlalchemy as sa

from tests.functional.storage.writing import cycle_on, meter, rows
from tests.simulated import told, whole
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert

IDS = [f"i{number}" for number in range(10)]


def instance(entity_id, version, **facets):
    return Upsert("service_type_instance", entity_id, version, facets)


def made(store):
    cycle = cycle_on(store)
    spec, provider = {"service_type": "vm", "spec": {"cpu": 1}}, {"provider_name": "kubevirt"}
    cycle.run(Batch(events=[told(i, instance(i, "1", spec=spec, provider=provider)) for i in IDS]))
    return cycle


def test_what_changes_facet_by_facet_ends_in_the_table_as_it_is_in_the_model(store):
    cycle = made(store)
    events = [told(i, instance(i, "2", status={"status": "RUNNING", "status_message": "it runs"})) for i in IDS]
    events += [told(i, instance(i, "2", output={"output_spec": {"ip": i}})) for i in IDS[::2]]
    events += [told(i, instance(i, "3", spec={"instance_name": i})) for i in IDS[:1]]
    cycle.run(Batch(events=events))
    assert {row.status for row in rows(store, "service_type_instances")} == {"RUNNING"}
    assert whole(store.load()) == whole(cycle.model)


def test_a_batch_of_new_and_known_entities_writes_both(store):
    cycle = made(store)
    cycle.run(Batch(events=[told(i, instance(i, "2", spec={"instance_name": i})) for i in [*IDS, "new", "newer"]]))
    assert {row.id: row.instance_name for row in rows(store, "service_type_instances")} == {
        i: i for i in [*IDS, "new", "newer"]
    }
    assert whole(store.load()) == whole(cycle.model)


def test_versions_that_move_alone_are_written(store):
    cycle = made(store)
    cycle.run(Batch(events=[told(i, instance(i, "2", spec={"service_type": "vm"})) for i in IDS]))
    assert {entity.versions[0] for entity in store.load().snapshot().all("service_type_instance")} == {"2"}
    assert whole(store.load()) == whole(cycle.model)


def test_a_row_that_was_deleted_by_hand_returns_with_the_entitys_next_change(store):
    cycle = made(store)
    with store.database.begin() as connection:
        connection.execute(sa.text("DELETE FROM service_type_instances WHERE id = 'i3'"))
    cycle.run(Batch(events=[told(i, instance(i, "2", status={"status": "RUNNING"})) for i in IDS]))
    assert sorted(row.id for row in rows(store, "service_type_instances")) == IDS
    assert whole(store.load()) == whole(cycle.model)


def test_a_row_that_is_newer_than_the_change_stays(store):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(i, meter(i, reading=1)) for i in IDS]))
    with store.database.begin() as connection:
        connection.execute(sa.text("UPDATE meters SET seq = 1000, reading = 7 WHERE id = 'i3'"))
    cycle.run(Batch(events=[told(i, meter(i, "2", reading=2)) for i in IDS]))
    assert {row.id: row.reading for row in rows(store, "meters")} == {i: 7 if i == "i3" else 2 for i in IDS}
