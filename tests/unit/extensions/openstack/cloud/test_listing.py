# SPDX-License-Identifier: Apache-2.0
"""A reconciler of a service of OpenStack: its account, its pages, and what a failure is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from oslo_config import cfg

from tests.json_api import Asked, JsonApi
from tests.listings import Warehouse
from tests.sites import parsed
from tests.unit.model.kinds import Slot
from tests.waiting import deadline
from watcher_sync.conf import cloud_account
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.extensions.openstack.cloud.listing import OpenStackReconciler, id_of, pages, resource
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.base import Report
from watcher_sync.reconcile.listing import UnreadableEntry, read_entries
from watcher_sync.reconcile.plugins import make_reconciler


class Slots(OpenStackReconciler):
    """Lists the slots of a service."""

    name: ClassVar[str] = "slots"
    lists = {Slot: ("owner",)}  # noqa: RUF012 - as a plugin writes it

    def list_live(self, scope: str, deadline: float) -> Iterable[Entity | UnreadableEntry]:
        client = self.client(deadline)
        found = pages(client, "rack", "/slots", key="slots", params={"detail": "true"}, version="1.7")
        return read_entries(Slot, found, lambda each: Slot(id=each["uuid"], owner=each["owner"]), id_of)


def page(asked: Asked) -> tuple[int, Any]:
    """Two of five slots."""
    if asked.path != "/slots":  # the library asks for the versions
        return 404, {}
    start = int(asked.query.get("marker", "s-1")[1:]) + 1
    found = [{"uuid": f"s{n}", "owner": f"o{n}"} for n in range(start, min(start + 2, 5))]
    more = {"slot_links": [{"rel": "next"}]} if start + 2 < 5 else {}
    return 200, {"slots": found, **more}


@pytest.fixture
def service() -> Iterator[JsonApi]:
    with JsonApi(page) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path)
    yield made
    made.close()


def configured(folder: Path, text: str) -> cfg.ConfigOpts:
    file = folder / "watcher-sync.conf"
    file.write_text(f"[reconciler_slots]\n{text}")
    return parsed(["--config-file", str(file)])


def reconciler(site: Warehouse, conf: cfg.ConfigOpts) -> OpenStackReconciler:
    made = make_reconciler("slots", Slots, conf, site.reconciler.context)
    assert isinstance(made, OpenStackReconciler)
    return made


@pytest.fixture
def slots(site: Warehouse, service: JsonApi, tmp_path: Path) -> OpenStackReconciler:
    return reconciler(site, configured(tmp_path, f"auth_type = none\nendpoint = {service.url}\n"))


def run(slots: OpenStackReconciler) -> Report:
    return slots.run("slots", deadline=time.monotonic() + deadline(30))


def test_all_pages_are_listed_with_the_microversion(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler
) -> None:
    assert run(slots).written == 5
    assert {entity["id"] for entity in site.model.dump("slot")} == {"s0", "s1", "s2", "s3", "s4"}
    asked = [each for each in service.asked if each.path == "/slots"]
    assert [each.query for each in asked] == [
        {"detail": "true"} | more for more in ({}, {"marker": "s1"}, {"marker": "s3"})
    ]
    assert {each.headers["OpenStack-API-Version"] for each in asked} == {"rack 1.7"}


class Rack:
    """Serves slots in pages of two, and refuses a marker that it does not have."""

    def __init__(self, service: JsonApi, count: int, status: int = 404) -> None:
        self.slots = [f"s{n}" for n in range(count)]
        self.status = status
        self.removals: list[list[str]] = []
        """The slots that are removed before a page by marker is served, one list for each such request."""
        service.answer = self.page

    def page(self, asked: Asked) -> tuple[int, Any]:
        if asked.path != "/slots":
            return 404, {}
        marker, begin = asked.query.get("marker"), 0
        if marker is not None:
            for gone in self.removals.pop(0) if self.removals else ():
                self.slots.remove(gone)
            if marker not in self.slots:
                return self.status, {"error": {"message": f"marker {marker} not found"}}
            begin = self.slots.index(marker) + 1
        shown = self.slots[begin : begin + 2]
        more = {"slot_links": [{"rel": "next"}]} if len(shown) == 2 else {}
        return 200, {"slots": [{"uuid": one, "owner": "x"} for one in shown], **more}


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize(
    "removals",
    [[["s1"]], [["s1", "s0"]], [["s3"], ["s1"]], [[], [], ["s1", "s2", "s3", "s4", "s5"]]],
    ids=lambda removals: "-then-".join(map("+".join, removals)) if isinstance(removals, list) else None,
)
def test_a_marker_that_is_deleted_between_two_pages_costs_no_slot_that_exists(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler, status: int, removals: list[list[str]]
) -> None:
    rack = Rack(service, 12, status)
    rack.removals = [*removals]
    assert run(slots).complete
    found = {entity["id"] for entity in site.model.dump("slot")}
    assert found >= set(rack.slots)
    slots.run("slots", allow_deletes=True, deadline=time.monotonic() + deadline(30))
    assert {entity["id"] for entity in site.model.dump("slot")} == set(rack.slots)


def test_a_marker_that_is_refused_each_time_ends_the_listing_after_a_few_requests(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler
) -> None:
    rack = Rack(service, 6)
    rack.removals = [["s1"]] * 9
    service.answer = lambda asked: rack.page(asked) if "marker" not in asked.query else (404, {})
    with pytest.raises(ReconcileError, match="rack /slots: 404"):
        run(slots)
    assert len([asked for asked in service.asked if asked.path == "/slots"]) < 20
    assert not list(site.model.dump("slot"))


def test_a_service_that_ignores_the_marker_ends_the_listing(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler
) -> None:
    service.answer = lambda asked: (200, {"slots": [{"uuid": "s0", "owner": "x"}], "next": "more"})
    with pytest.raises(ReconcileError, match=re.escape("rack /slots: the page after s0 ends with it again")):
        run(slots)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, {"slots": {"uuid": "s0"}}), "rack /slots: slots is not a list"),
        ((200, ["s0"]), "rack /slots: Expected `object`, got `array`"),
        ((403, {"forbidden": {"message": "the role admin"}}), "rack /slots: 403: the role admin"),
        ((500, {}), "rack /slots: 500"),
    ],
)  # fmt: skip
def test_a_listing_that_is_not_complete_fails_and_names_the_request(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler, answer: tuple[int, Any], reason: str
) -> None:
    service.answer = lambda asked: answer
    with pytest.raises(ReconcileError, match=re.escape(reason)) as caught:
        run(slots)
    assert service.url not in str(caught.value)
    assert not list(site.model.dump("slot"))


@pytest.mark.parametrize(
    ("odd", "owner", "complete"),
    [
        ('{"uuid": "s2", "owner": NaN}', None, True),
        ('{"uuid": "s2", "owner": -Infinity}', None, True),
        ('{"uuid": "s2", "owner": 1e999}', None, True),
        ('{"uuid": "s2", "owner": "a\\ud800"}', "a?", True),
        ('{"uuid": "s2", "owner": 1e9}', "x", True),
        ('{"uuid": "s2"}', "x", True),
        ('{"owner": "y"}', "x", False),
        ('{"uuid": ["s2"], "owner": "y"}', "x", False),
        ("null", "x", False),
        ("[]", "x", False),
    ],
)
def test_an_odd_object_costs_itself_alone(
    site: Warehouse, service: JsonApi, slots: OpenStackReconciler, odd: str, owner: str | None, complete: bool
) -> None:
    rack = Rack(service, 6)
    run(slots)
    before = {entity["id"]: entity["owner"] for entity in site.model.dump("slot")}

    def with_odd(asked: Asked) -> tuple[int, Any]:
        status, document = rack.page(asked)
        text = json.dumps(document).replace('{"uuid": "s2", "owner": "x"}', odd)
        return status, text.encode()

    service.answer = with_odd
    report = run(slots)
    assert report.complete is complete
    assert {entity["id"]: entity["owner"] for entity in site.model.dump("slot")} == before | {"s2": owner}
    assert bool(report.refused_writes) is (owner == "x" and complete)


def test_one_object_is_asked_for_by_its_id(service: JsonApi, slots: OpenStackReconciler) -> None:
    answers = {"/slots/a%2Fb": {"slot": {"uuid": "a/b"}}, "/slots/s1": {"uuid": "s1"}, "/slots/s2": {"slot": []}}
    service.answer = lambda asked: (200, answers[asked.path]) if asked.path in answers else (404, {})
    client = slots.client(time.monotonic() + deadline(30))

    def ask(entity_id: str, key: str | None = "slot") -> dict[str, Any] | None:
        return resource(client, "rack", "/slots", entity_id, key=key, version="1.7")

    assert (ask("a/b"), ask("s1", None), ask("s3")) == ({"uuid": "a/b"}, {"uuid": "s1"}, None)
    with pytest.raises(ReconcileError, match="rack /slots/s2: slot is not an object"):
        ask("s2")


class FoundSlots(Slots):
    """Asks for what the listing lacks."""

    finds = (Slot,)

    def find_live(self, scope: str, cls: type[Entity], entity_id: str, deadline: float) -> Entity | None:
        found = resource(self.client(deadline), "rack", "/slots", entity_id, version="1.7")
        return None if found is None else Slot(id=found["uuid"], owner=found["owner"])


def test_each_slot_that_is_gone_costs_one_request_although_the_endpoint_answers_404(
    site: Warehouse, service: JsonApi, tmp_path: Path
) -> None:
    """Cinder has no route for the endpoint of its catalogue, which ends with the id of a project."""
    rack = Rack(service, 12)
    conf = configured(tmp_path, f"auth_type = none\nendpoint = {service.url}/v3/0f1e\n")
    service.answer = lambda asked: rack.page(asked._replace(path=asked.path.removeprefix("/v3/0f1e")))
    slots = make_reconciler("slots", FoundSlots, conf, site.reconciler.context)
    slots.run("slots", deadline=time.monotonic() + deadline(30))
    del rack.slots[2:], service.asked[:]
    report = slots.run("slots", allow_deletes=True, deadline=time.monotonic() + deadline(30))
    assert (report.deleted, report.complete) == (10, True)
    asked = [each.path for each in service.asked if "/slots/" in each.path]
    assert (len(set(asked)), len(asked)) == (10, 11)  # the first one again, after the catalogue


def test_a_slot_whose_id_no_path_can_have_stays_and_the_others_go(
    site: Warehouse, service: JsonApi, tmp_path: Path
) -> None:
    rack = Rack(service, 12)
    rack.slots[5] = ".."
    conf = configured(tmp_path, f"auth_type = none\nendpoint = {service.url}\n")
    slots = make_reconciler("slots", FoundSlots, conf, site.reconciler.context)
    slots.run("slots", deadline=time.monotonic() + deadline(30))
    del rack.slots[2:]
    assert slots.run("slots", allow_deletes=True, deadline=time.monotonic() + deadline(30)).deleted == 9
    assert {entity["id"] for entity in site.model.dump("slot")} == {"s0", "s1", ".."}


def test_without_an_account_nothing_is_listed(site: Warehouse, tmp_path: Path) -> None:
    assert reconciler(site, configured(tmp_path, "interval = 5\n")).scopes() == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cloud = north\nauth_type = none\n", "[reconciler_slots] cloud, auth_type: are both set"),
        ("auth_type = pasword\n", "[reconciler_slots] auth_type = pasword: there is no such plugin"),
        ("auth_type = password\n", "[reconciler_slots] auth_url: not set"),
        ("auth_section = account\n", "[reconciler_slots] auth_section = account: there is no such section"),
    ],
)
def test_an_account_that_cannot_be_used_is_named(site: Warehouse, tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        reconciler(site, configured(tmp_path, text))


def test_an_option_with_a_wrong_value_is_named_before_the_first_run(site: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[reconciler_slots\] interval: it has to be a number, not 'soon'$"):
        reconciler(site, configured(tmp_path, "interval = soon\n"))


def test_the_check_of_the_files_knows_the_options_of_an_account(tmp_path: Path) -> None:
    conf = configured(tmp_path, "auth_type = password\n")
    [listed] = [lister() for lister in cloud_account.listers(conf, ["reconciler_slots"])]
    names = {option.dest for section, options in listed for option in options if section == "reconciler_slots"}
    assert {"auth_url", "username", "timeout", "auth_section"} <= names
    assert "application_credential_id" not in names


def test_a_section_has_an_account_if_its_reconciler_says_so() -> None:
    assert cloud_account.has_account({option.dest for option in Slots.options})
    assert not cloud_account.has_account({"cloud", "interval"})
