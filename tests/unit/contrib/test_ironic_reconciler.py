# SPDX-License-Identifier: Apache-2.0
"""The reconciler against an API that answers in pages as Ironic does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watcher_sync_ironic.reconciler import IronicReconciler

from tests.json_api import Asked, JsonApi
from tests.simulated import telling
from tests.sites import Site, parsed
from tests.unit.contrib.ironic_events import KINDS, Ironic
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.read.member_states import count_kinds, state_of
from watcher_sync.reconcile.base import Report
from watcher_sync.reconcile.plugins import make_reconciler
from watcher_sync.testing.kinds import builtin_kinds

_PAGE = 2


class IronicApi(JsonApi):
    """The collections of Ironic's API over HTTP."""

    def __init__(self) -> None:
        super().__init__(self.page)
        self.collections: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("conductors", "nodes", "ports", "portgroups")
        }
        self.statuses: dict[str, int] = {}
        """Collection -> status of its answer, where it is not 200."""

    def page(self, asked: Asked) -> tuple[int, Any]:
        name, _, one = asked.path.removeprefix("/v1/").partition("/")
        if one:
            found = [each for each in self.collections[name] if each["uuid"] == one]
            return (200, found[0]) if found else (404, {})
        found = self.collections[name] if asked.query.get("detail") == "true" else []
        ids = [each["uuid"] for each in found]
        begin = ids.index(asked.query["marker"]) + 1 if "marker" in asked.query else 0
        more = {"next": f"{self.url}/v1/{name}?marker={ids[begin + _PAGE - 1]}"} if len(ids) > begin + _PAGE else {}
        return self.statuses.get(name, 200), {name: found[begin : begin + _PAGE], **more}


@pytest.fixture
def api() -> Iterator[IronicApi]:
    ironic = Ironic()
    with IronicApi() as made:
        for number in range(5):
            event = ironic.node("create.end", saved=None, uuid=f"node-{number}", name=f"n{number}", instance_uuid="vm")
            made.collections["nodes"].append(event["payload"]["ironic_object.data"])
        port = ironic.event("port", "create.end", saved=None, uuid="port-1", node_uuid="node-1")
        made.collections["ports"].append(port["payload"]["ironic_object.data"])
        yield made


Make = Callable[..., IronicReconciler]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    kinds = builtin_kinds()
    for cls in KINDS:
        kinds.add(cls)
    made = Site(tmp_path, kinds=kinds)
    yield made
    made.close()


@pytest.fixture
def make(site: Site, tmp_path: Path) -> Make:
    def made(**options: Any) -> IronicReconciler:
        file = tmp_path / "watcher-sync.conf"
        file.write_text("\n".join(["[reconciler_ironic]", *(f"{name} = {value}" for name, value in options.items())]))
        conf = parsed(["--config-file", str(file)])
        context = make_context(conf, site.store, telling(site.store.kinds), lambda: site.model)
        reconciler = make_reconciler("ironic", IronicReconciler, conf, context)
        assert isinstance(reconciler, IronicReconciler)
        return reconciler

    return made


def run(reconciler: IronicReconciler) -> Report:
    return reconciler.run("ironic", deadline=time.monotonic() + deadline(60))


def test_all_pages_of_all_collections_become_entities(site: Site, api: IronicApi, make: Make) -> None:
    run(make(auth_type="none", endpoint=f"{api.url}/v1"))
    nodes = {row["id"]: row for row in site.model.dump("baremetal_node")}
    assert sorted(nodes) == [f"node-{number}" for number in range(5)]
    assert nodes["node-3"]["name"] == "n3"
    assert nodes["node-3"]["instance_id"] == "vm"
    assert [row["node_id"] for row in site.model.dump("baremetal_port")] == ["node-1"]
    assert len(api.asked) == 6
    assert {asked.headers["X-OpenStack-Ironic-API-Version"] for asked in api.asked} == {"1.65"}


@pytest.mark.parametrize(
    ("field", "hidden"),
    [
        ("last_error", "** Value Redacted - Requires baremetal:node:get:last_error permission. **"),
        ("fault", "** Redacted - requires baremetal:node:get:fault permission. **"),
        ("extra", {"content": "** Redacted - Requires baremetal:node:get:extra permission. **"}),
        ("properties", {"redacted_contents": "** Value redacted: Requires permission. Permission denied. **"}),
    ],
)
def test_a_field_that_ironic_hides_stays_as_the_model_has_it_and_is_named_once(
    site: Site, api: IronicApi, make: Make, caplog: pytest.LogCaptureFixture, field: str, hidden: Any
) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    known = {"rack": "7"} if isinstance(hidden, dict) else "no power"
    api.collections["nodes"][0][field] = known
    run(reconciler)
    for node in api.collections["nodes"]:
        node[field] = hidden
    ironic = Ironic()
    new = ironic.node("create.end", saved=None, uuid="node-9", name="n9")["payload"]["ironic_object.data"]
    api.collections["nodes"].append({**new, field: hidden})
    run(reconciler)
    nodes = {row["id"]: row for row in site.model.dump("baremetal_node")}
    assert (nodes["node-0"][field], nodes["node-9"][field], nodes["node-9"]["name"]) == (known, None, "n9")
    assert [record.getMessage().count(field) for record in caplog.records if "hides" in record.getMessage()] == [1]


def test_what_is_listed_no_more_is_deleted(site: Site, api: IronicApi, make: Make) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    run(reconciler)
    del api.collections["nodes"][4]
    run(reconciler)
    assert len(list(site.model.dump("baremetal_node"))) == 4


@pytest.mark.parametrize(("collection", "status"), [("conductors", 401), ("nodes", 403), ("nodes", 500)])
def test_an_api_that_refuses_changes_nothing(
    site: Site, api: IronicApi, make: Make, collection: str, status: int
) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    run(reconciler)
    api.collections["nodes"].clear()
    api.statuses[collection] = status
    with pytest.raises(ReconcileError, match=f"/{collection}: {status}"):
        run(reconciler)
    assert len(list(site.model.dump("baremetal_node"))) == 5


def test_an_account_that_sees_the_nodes_of_its_project_alone_deletes_nothing(
    site: Site, api: IronicApi, make: Make
) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    run(reconciler)
    del api.collections["nodes"][1:]
    api.statuses["conductors"] = 403
    with pytest.raises(ReconcileError, match=r"/conductors: 403.*the role reader in the system scope"):
        run(reconciler)
    assert len(list(site.model.dump("baremetal_node"))) == 5


def test_nodes_are_counted_by_their_provision_state(site: Site, api: IronicApi, make: Make) -> None:
    api.collections["nodes"][0]["provision_state"] = "deploy failed"
    run(make(auth_type="none", endpoint=f"{api.url}/v1"))
    table = site.store.tables.entities["baremetal_node"]
    state = state_of(site.store.kinds["baremetal_node"], table)
    assert state is not None
    with site.store.database.connect() as connection:
        counts = count_kinds(connection, {"baremetal_node": (table, state, {})})
    assert counts == {"baremetal_node": {"deploy failed": 1, "enroll": 4}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda node: node.pop("fault"), "missing required field `fault`"),
        (lambda node: node.update(traits="none"), "Expected `array | null`"),
        (lambda node: node.update(created_at="yesterday"), "Invalid RFC3339"),
    ],
)
def test_a_node_with_an_odd_field_is_named_and_costs_no_other(
    site: Site, api: IronicApi, make: Make, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    run(reconciler)
    change(api.collections["nodes"][0])
    api.collections["nodes"][1]["name"] = "renamed"
    report = run(reconciler)
    assert (report.complete, list(report.refused_writes)) == (True, ["baremetal_node node-0"])
    assert named in report.refused_writes["baremetal_node node-0"]
    assert [row["name"] for row in site.model.dump("baremetal_node")] == ["n0", "renamed", "n2", "n3", "n4"]


def test_a_node_that_the_list_lacks_and_that_exists_stays(site: Site, api: IronicApi, make: Make) -> None:
    reconciler = make(auth_type="none", endpoint=f"{api.url}/v1")
    run(reconciler)
    hidden = api.collections["nodes"].pop(4)
    answer = api.answer
    api.answer = lambda asked: (200, hidden) if asked.path.endswith("/nodes/node-4") else answer(asked)
    report = run(reconciler)
    assert report.failures == {"baremetal_node": "the listing lacks 1 that exist, such as node-4"}
    assert len(list(site.model.dump("baremetal_node"))) == 5


def test_without_an_account_nothing_is_listed(make: Make) -> None:
    assert make().scopes() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auth_type": "password"}, "auth_url"),
        ({"auth_type": "none", "cloud": "x"}, "are both set"),
        ({"cloud": "no-such-cloud"}, "no-such-cloud"),
    ],
)
def test_an_account_that_is_wrong_is_named(make: Make, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)
