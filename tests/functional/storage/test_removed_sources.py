# SPDX-License-Identifier: Apache-2.0
"""What a removed source left behind is found by its scopes, and forgotten with journal rows; then it may come back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on, followed, journal, rows, without_heard
from tests.simulated import NOON, by_facet, told, whole
from watcher_sync.cmd.repairs import forget
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.extensions.federation.handler.handler import FederationHandler
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.removed_sources import count_entities, read_removed
from watcher_sync.storage.groups.source_status import SourceRow, list_sources, mark_removed, write_sources
from watcher_sync.storage.writing.source_cursors import write_cursor
from watcher_sync.storage.writing.store import Store

SCOPES = {
    "nova": NovaHandler().scopes(""),
    "cell2": NovaHandler().scopes(""),
    "dcm": DcmHandler().scopes(""),
    "edge": KubernetesHandler().scopes("edge"),
    "far": KubernetesHandler().scopes("far"),
    "north": FederationHandler().scopes("north"),
}


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("enabled_sources", ["local"], group="engine")
    return conf


def status(store: Store, source: str, **fields: Any) -> SourceRow:
    now = read_clock(store.database)
    scopes = msgspec.json.encode(SCOPES[source]).decode()
    given = {"engine_group": "g", "host": "h", "pid": 1, "state": "connected", "since": now, "updated_at": now}
    return SourceRow(source=source, **{**given, "scopes": scopes, **fields})


def entity(kind: str, entity_id: str, version: str = "1", **values: Any) -> Upsert:
    return Upsert(kind, entity_id, version, by_facet(kind, **values))


def filled(store: Store) -> CommitCycle:
    """Two clusters, a region, a provider, and two servers on two hosts."""
    cycle = cycle_on(store)
    return commit(
        cycle,
        *(
            told(number, entity(kind, entity_id, **values))
            for number, (kind, entity_id, values) in enumerate(
                [
                    *(("pod", f"{c}-{n}", {"cluster": c, "name": "p"}) for c in ("edge", "far") for n in range(3)),
                    *(("workload", f"{c}-w", {"cluster": c, "name": "w"}) for c in ("edge", "far")),
                    *(("cluster", c, {"state": "connected"}) for c in ("edge", "far")),
                    ("instance", "vm1", {"host": "h1"}),
                    ("instance", "vm2", {"host": "h2"}),
                    ("compute_node", "h2", {"status": "enabled"}),
                    ("instance", "north:vm1", {"host": "north:h1"}),
                    ("instance", "NORTH:vm1", {"host": None}),
                    ("pod", "north:p", {"cluster": "north:edge"}),
                    ("provider", "a/vm", {"name": "a"}),
                    ("vnf_instance", "vnf1", {"cluster": "edge", "name": "vnf1"}),
                ]
            )
        ),
    )


def ids(store: Store) -> dict[str, set[str]]:
    return {name: set(model.ids(name)) for model in [store.load().snapshot()] for name in store.kinds}


def left(store: Store) -> dict[str, int]:
    removed = read_removed(list_sources(store.database, removed=True))
    with store.connect() as connection:
        return {s: count_entities(connection, store.tables, store.kinds, removed, s) for s in removed.scopes}


def writer(store: Store, cycle: CommitCycle) -> DirectWriter:
    return DirectWriter(store, cycle.dispatcher)


@on_one_database
def test_the_entities_of_removed_sources_are_counted_unless_another_source_has_them(store: Store) -> None:
    filled(store)
    write_sources(store.database, [status(store, name) for name in SCOPES])
    now = read_clock(store.database)
    assert left(store) == {}
    mark_removed(store.database, "g", ["cell2", "far"], now)
    assert left(store) == {"nova": 0, "dcm": 1, "edge": 5, "north": 3}
    mark_removed(store.database, "g", [], now)
    assert left(store) == {"nova": 5, "cell2": 5, "dcm": 1, "edge": 5, "far": 5, "north": 3}


def test_a_forgotten_source_loses_its_entities_and_all_else_and_may_come_back(
    store: Store, conf: cfg.ConfigOpts
) -> None:
    cycle = filled(store)
    write_sources(store.database, [status(store, name) for name in SCOPES])
    mark_removed(store.database, "g", ["nova", "dcm", "far", "north"], read_clock(store.database))
    for source in ("edge", "far"):
        write_cursor(store.database, store.tables, source, "7")
        difference = FieldDifference(kind="pod", entity_id="x", field="", model_value="x", policy="heal")
        replace_drifts(store.database, [difference], source=source, kinds=["pod"], now=NOON)
    before, seq = ids(store), cycle.model.generation

    planned = forget(conf, {}, store, writer(store, cycle), "edge", dry_run=True)
    assert planned.entities == {"cluster": 1, "pod": 3, "workload": 1}
    assert planned.rows == {"drifts": 1, "source_cursors": 1, "source_status": 1}
    assert ids(store) == before

    done = forget(conf, {}, store, writer(store, cycle), "edge", dry_run=False)
    assert (done.entities, done.rows) == (planned.entities, planned.rows)
    lost = {kind: found - ids(store)[kind] for kind, found in before.items() if found - ids(store)[kind]}
    assert lost == {"pod": {"edge-0", "edge-1", "edge-2"}, "workload": {"edge-w"}, "cluster": {"edge"}}
    assert {(row.change, row.source, row.event_type) for row in journal(store, seq)} == {
        ("deleted", "edge", "manage.source.forget")
    }
    assert [row.source for row in rows(store, "drifts")] == ["far"]
    assert {row.source for row in rows(store, "source_status")} == SCOPES.keys() - {"edge"}
    assert rows(store, "tombstones") == []

    cycle.follow()
    assert without_heard(whole(cycle.model)) == without_heard(whole(followed(store)))
    commit(cycle, told(99, entity("pod", "edge-1", cluster="edge"), entity("cluster", "edge", state="connected")))
    assert "edge-1" in ids(store)["pod"]
    assert "edge" in ids(store)["cluster"]


@on_one_database
def test_hosts_go_with_the_servers_of_a_forgotten_nova_and_regions_stay(store: Store, conf: cfg.ConfigOpts) -> None:
    cycle = filled(store)
    write_sources(store.database, [status(store, name) for name in ("nova", "north")])
    mark_removed(store.database, "g", ["north"], read_clock(store.database))
    found = forget(conf, {}, store, writer(store, cycle), "nova", dry_run=False)
    assert found.entities["instance"] == 3
    assert ids(store)["instance"] == {"north:vm1"}
    assert ids(store)["compute_node"] == {"north:h1"}
    assert rows(store, "tombstones") == []


@on_one_database
def test_a_forgotten_region_takes_all_that_has_its_prefix_and_nothing_else(store: Store, conf: cfg.ConfigOpts) -> None:
    cycle = filled(store)
    before = {kind: {each for each in found if not each.startswith("north:")} for kind, found in ids(store).items()}
    write_sources(store.database, [status(store, "nova"), status(store, "north")])
    mark_removed(store.database, "g", ["nova"], read_clock(store.database))
    found = forget(conf, {}, store, writer(store, cycle), "north", dry_run=False)
    assert found.entities["instance"] == 1
    assert {kind: left for kind, left in ids(store).items() if left} == {k: v for k, v in before.items() if v}
    assert [row.source for row in rows(store, "source_status")] == ["nova"]


@on_one_database
def test_nothing_is_forgotten_that_a_source_may_have_whose_engine_does_not_say_what_it_has(
    store: Store, conf: cfg.ConfigOpts
) -> None:
    cycle = filled(store)
    write_sources(store.database, [status(store, "nova"), status(store, "cell2", scopes=None, engine_group="g2")])
    mark_removed(store.database, "g", [], read_clock(store.database))
    assert left(store) == {"nova": 0}
    with pytest.raises(ConfigError, match=r"nova: source cell2 may have its entities: the engine on h \(group g2\)"):
        forget(conf, {}, store, writer(store, cycle), "nova", dry_run=True)
    write_sources(store.database, [status(store, "cell2", engine_group="g2")])
    assert left(store) == {"nova": 0}
    assert forget(conf, {}, store, writer(store, cycle), "nova", dry_run=True).entities == {}


@on_one_database
def test_sources_that_say_nothing_do_not_block_each_other(store: Store, conf: cfg.ConfigOpts) -> None:
    cycle = filled(store)
    write_sources(store.database, [status(store, name, scopes=None) for name in ("nova", "cell2")])
    mark_removed(store.database, "g", [], read_clock(store.database))
    for name in ("nova", "cell2"):
        assert forget(conf, {}, store, writer(store, cycle), name, dry_run=False).rows == {"source_status": 1}


@on_one_database
def test_what_a_configured_source_will_have_is_not_forgotten(store: Store, conf: cfg.ConfigOpts) -> None:
    """Such as after a new name, before the engine has started."""
    cycle = filled(store)
    write_sources(store.database, [status(store, "nova"), status(store, "far")])
    mark_removed(store.database, "g", [], read_clock(store.database))
    configured = {"cell1": SCOPES["nova"], "south": FederationHandler().scopes("south")}
    planned = forget(conf, configured, store, writer(store, cycle), "nova", dry_run=True)
    assert (planned.entities, planned.rows) == ({}, {"source_status": 1})
    assert forget(conf, configured, store, writer(store, cycle), "far", dry_run=True).entities["pod"] == 3
    configured = {"north": SCOPES["north"]}
    assert forget(conf, configured, store, writer(store, cycle), "nova", dry_run=False).entities["instance"] == 3
    assert ids(store)["instance"] == {"north:vm1"}


@on_one_database
def test_a_source_of_a_configuration_is_not_forgotten(store: Store, conf: cfg.ConfigOpts) -> None:
    cycle = filled(store)
    write_sources(store.database, [status(store, "edge")])
    with pytest.raises(ConfigError, match=r"the engine on h \(group g\) reported it \d+ s ago"):
        forget(conf, {}, store, writer(store, cycle), "edge", dry_run=True)
    with pytest.raises(ConfigError, match="local: \\[engine\\] enabled_sources names it"):
        forget(conf, {}, store, writer(store, cycle), "local", dry_run=True)
    with pytest.raises(ConfigError, match="nothing: nothing is stored of such a source; the sources are edge"):
        forget(conf, {}, store, writer(store, cycle), "nothing", dry_run=True)
    late = sa.update(store.tables.source_status).values(updated_at=NOON)
    with store.database.begin() as connection:
        connection.execute(late)
    assert forget(conf, {}, store, writer(store, cycle), "edge", dry_run=True).entities["pod"] == 3
