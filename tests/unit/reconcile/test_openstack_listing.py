# SPDX-License-Identifier: Apache-2.0
"""A reconciler of a service of OpenStack: its account, its pages, and what a failure is."""

from __future__ import annotations

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
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.base import Report
from watcher_sync.reconcile.openstack_listing import OpenStackReconciler, pages
from watcher_sync.reconcile.plugins import make_reconciler


class Slots(OpenStackReconciler):
    """Lists the slots of a service."""

    name: ClassVar[str] = "slots"
    lists = {Slot: ("owner",)}  # noqa: RUF012 - as a plugin writes it

    def list_live(self, scope: str, deadline: float) -> Iterable[Entity]:
        client = self.client(deadline)
        for each in pages(client, "rack", "/slots", key="slots", params={"detail": "true"}, version="1.7"):
            yield Slot(id=each["uuid"], owner=each["owner"])


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


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, {"slots": {"uuid": "s0"}}), "rack /slots: slots is not a list of objects with an id"),
        ((200, ["s0"]), "rack /slots: Expected `object`, got `array`"),
        ((200, {"slots": [{"owner": "x"}], "next": "more"}), "rack /slots: slots is not a list of objects with an id"),
        ((200, {"slots": [{"uuid": "s0", "owner": "x"}], "next": "more"}), "has slot s0 twice"),
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
