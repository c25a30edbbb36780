# SPDX-License-Identifier: Apache-2.0
"""All hosts, aggregates and servers of one generation in one answer, and what of it is cached."""

from __future__ import annotations

import datetime
import itertools
import random
from wsgiref.util import setup_testing_defaults

import msgspec
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import opts

from tests.simulated import by_facet, telling, told
from tests.unit.api.conftest import Client
from tests.unit.security.callers import Api
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extensions.openstack.read import host_usage
from watcher_sync.extensions.openstack.read.compute_model import FIELDS_LEFT_OUT, ComputeModelReader, begin
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.writing.journal import read_head

NUMBERS = itertools.count(1)
PATH = "/v1/compute_model"


@pytest.fixture
def commit(store):
    cycle = CommitCycle(store, store.load(), telling(store.kinds))

    def commit(*changes):
        cycle.run(Batch(events=[told(next(NUMBERS), *changes)]))

    return commit


def version():
    return f"{next(NUMBERS):09d}"


def instance(number, host="a", **values):
    facets = by_facet("instance", name=f"i{number}", host=host, **values)
    return Upsert("instance", f"{number:032x}", version(), facets)


def host(name, **facets):
    return Upsert("compute_node", name, version(), {"service": {"status": "enabled"}, **facets})


def aggregate(name, number, *hosts):
    return Upsert(
        "aggregate",
        f"uuid-{name}",
        version(),
        {"state": {"name": name, "number": number}, "hosts": {"hosts": list(hosts)}},
    )


def shown(client):
    result = client.simulate_get(PATH)
    assert result.status_code == 200, result.text
    return result.json


def by_id(entries):
    return {entry["id"]: entry for entry in entries}


def all_of(client, plural):
    """Every entity of a kind, as the lists show it."""
    found, url = [], f"/v1/{plural}?limit=1000"
    while url:
        page = client.simulate_get(url).json
        found += page[plural]
        url = page["next"]
    return found


@pytest.mark.parametrize("kind", ["aggregate", "compute_node", "instance"])
def test_each_entity_is_as_its_list_shows_it(client, truth, store, kind):
    plural = store.kinds[kind].plural
    left_out = {*FIELDS_LEFT_OUT[kind], *host_usage.FIELDS, "seq"}
    listed = {e["id"]: {k: v for k, v in e.items() if k not in left_out} for e in all_of(client, plural)}
    entries = by_id(shown(client)[plural])
    assert len(entries) > 2
    assert {i: {k: v for k, v in e.items() if k in listed[i]} for i, e in entries.items()} == listed


def test_times_are_written_as_in_the_lists_with_and_without_a_fraction(client, commit):
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    commit(instance(1, created_at=noon, updated_at=noon.replace(microsecond=120), launched_at=None))
    (entry,), (listed,) = shown(client)["instances"], all_of(client, "instances")
    assert entry["created_at"] == "2026-01-01T12:00:00Z"
    assert [entry[n] for n in ("created_at", "updated_at", "launched_at")] == [
        listed[n] for n in ("created_at", "updated_at", "launched_at")
    ]


def test_a_host_has_the_names_and_the_numbers_of_its_aggregates(client, commit):
    commit(host("a"), host("b"), aggregate("ssd", 7, "a"), aggregate("gpu", None, "a", "elsewhere"))
    nodes = by_id(shown(client)["compute_nodes"])
    assert sorted(nodes["a"]["aggregates"], key=str) == [
        {"id": "uuid-gpu", "number": None, "name": "gpu"},
        {"id": "uuid-ssd", "number": 7, "name": "ssd"},
    ]
    assert nodes["b"]["aggregates"] == []


def test_the_numa_nodes_and_the_pci_devices_of_the_flavor_are_distinguished_from_unknown(client, commit):
    specs = {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:2, nic:1"}
    commit(instance(1, extra_specs=specs), instance(2, extra_specs={}), instance(3))
    first, second, third = shown(client)["instances"]
    assert (first["numa"]["nodes"], first["numa"]["cpu_policy"], first["numa"]["mem_page_size"]) == (
        2,
        "dedicated",
        None,
    )
    assert first["pci"] == [{"alias": "gpu", "count": 2}, {"alias": "nic", "count": 1}]
    assert (second["numa"], second["pci"]) == (None, [])
    assert (third["numa"], third["pci"], third["extra_specs"]) == (None, None, None)


def test_the_inventories_of_pci_devices_of_a_host_are_distinguished_from_unknown(client, commit):
    gpu = {"total": 2, "reserved": 0, "allocation_ratio": 1.0}
    inventories = {"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 4.0}, "CUSTOM_PCI_10DE_1DB6": gpu}
    commit(host("a", capacity={"vcpus": 8, "inventories": inventories}), host("b"))
    nodes = by_id(shown(client)["compute_nodes"])
    assert nodes["a"]["inventories"] == inventories
    assert nodes["a"]["pci"] == {"CUSTOM_PCI_10DE_1DB6": gpu}
    assert (nodes["b"]["pci"], nodes["b"]["vcpus"]) == (None, None)


def test_the_generation_is_the_tag_and_an_unchanged_one_is_answered_with_304(client, commit):
    commit(host("a"), instance(1))
    first = client.simulate_get(PATH)
    tag = first.headers["etag"]
    assert tag == f'"{first.json["generation"]}"'
    assert client.simulate_get("/v1/topology").json["seq"] == first.json["generation"]
    again = client.simulate_get(PATH, headers={"If-None-Match": tag})
    assert (again.status_code, again.text) == (304, "")
    commit(instance(2))
    changed = client.simulate_get(PATH, headers={"If-None-Match": tag})
    assert (changed.status_code, len(changed.json["instances"])) == (200, 2)


def test_an_empty_model_is_a_document_without_entities(client, store):
    assert shown(client) == {"generation": 0, "aggregates": [], "compute_nodes": [], "instances": []}


@pytest.mark.slow
def test_what_changed_since_the_last_answer_is_in_the_next_one(client, commit):
    commit(host("a"), *(instance(n) for n in range(1, 4)))
    shown(client)
    commit(instance(1, state="error"), instance(4), Delete("instance", f"{2:032x}", version()))
    entries = by_id(shown(client)["instances"])
    assert sorted(entries) == [f"{n:032x}" for n in (1, 3, 4)]
    assert entries[f"{1:032x}"]["state"] == "error"


def document(service, reader):
    with service.reading() as connection:
        generation = read_head(connection, service.tables)
        return msgspec.json.decode(b"".join([begin(generation), *reader.read(connection, generation)]))


@pytest.mark.slow
def test_after_any_changes_a_cached_answer_equals_one_that_was_read_whole(conf, store, commit):
    service, rng = Service(conf, store), random.Random(5)
    cached = ComputeModelReader(service.tables, service.kinds, "sqlite")
    for _ in range(40):
        for _ in range(rng.randint(0, 2)):
            changes = [
                Delete("instance", f"{n:032x}", version())
                if rng.random() < 0.2
                else instance(n, f"h{rng.randint(0, 3)}")
                for n in rng.sample(range(1, 1400), rng.choice([1, 5, 300]))
            ]
            commit(*changes)
        assert document(service, cached) == document(
            service, ComputeModelReader(service.tables, service.kinds, "sqlite")
        )


def test_what_is_cached_of_another_journal_is_not_used(conf, store, commit):
    service = Service(conf, store)
    reader = ComputeModelReader(service.tables, service.kinds, "sqlite")
    commit(instance(1, state="active"))
    assert document(service, reader)["instances"][0]["state"] == "active"
    # A backup that was restored: the same seq, and another history.
    with store.database.begin() as connection:
        connection.execute(service.tables.journal.update().values(event_id="another"))
        connection.execute(service.tables.entities["instance"].update().values(state="stopped"))
    assert document(service, reader)["instances"][0]["state"] == "stopped"


def test_an_answer_occupies_a_stream_until_it_ends(conf, store, commit, problem):
    conf.set_override("max_streams", 1, group="api")
    client = Client(make_application(conf, store))
    commit(instance(1))
    for _ in range(3):
        shown(client)
        assert client.simulate_get(PATH, headers={"If-None-Match": "*"}).status_code == 304
    conf.set_override("max_streams", 0, group="api")
    problem(Client(make_application(conf, store)).simulate_get(PATH), 503)


def started(application):
    """The pieces of an answer, as a WSGI server asks for them."""
    environ = {"PATH_INFO": PATH, "REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    return application(environ, lambda *_: None)


def test_a_client_that_disconnects_gives_its_stream_back(conf, store, commit):
    conf.set_override("max_streams", 1, group="api")
    application = make_application(conf, store)
    commit(instance(1))
    for _ in range(3):
        answer = started(application)
        assert next(iter(answer)).startswith(b'{"generation":')
        answer.close()


def test_without_the_database_the_answer_breaks_off_and_gives_its_stream_back(conf, store, commit):
    conf.set_override("max_streams", 1, group="api")
    application = make_application(conf, store)
    commit(instance(1))
    with store.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE instances RENAME TO away")
    for _ in range(2):
        pieces = iter(started(application))
        assert next(pieces).startswith(b'{"generation":')
        with pytest.raises(ConnectionResetError):
            list(pieces)
    with store.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO instances")
    shown(Client(application))


def test_a_policy_that_lets_projects_ask_does_not_show_them_the_hosts(conf, store, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('"compute_model:show": "role:reader"\n')
    opts.set_defaults(conf)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        assert api("reader", "GET", PATH).status_code == 403
        assert api("admin", "GET", PATH).status_code == 200
