# SPDX-License-Identifier: Apache-2.0
"""Addresses: a reference is a link to its entity, and an address of nothing says so and leads back."""

from __future__ import annotations

import pytest

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("address", "where", "text"),
    [
        ("#/nonsense", ".nowhere", "There is no view nonsense"),
        ("#/%zz", ".nowhere", "There is no view %zz"),
        ("#/table/unknown_kind", ".nowhere", "There is no kind unknown kind"),
        ("#/entities/unknown_kind/x", ".entity", "The kind entities is not installed"),
        ("#/instance/none/at/all", ".entity", "The model does not have it"),
    ],
)
def test_an_address_of_nothing_says_so_and_leads_back(shared_page: Page, address: str, where: str, text: str) -> None:
    page = shared_page
    page.open(address)
    page.wait_text(where, text, 30)
    page.choose(f"{where} a.back")
    wait_until(lambda: page.all(".topology .tile, .table .data"), 30, "a view")
    assert page.all(f".nowhere, {where}") == []


def test_every_reference_is_a_link_that_another_tab_can_open(shared_page: Page, shared_cloud: Cloud) -> None:
    page = shared_page
    entity_id = list(shared_cloud.instances)[9]
    for host in ("cmp-ams-0003", "cmp-muc-0017"):
        shared_cloud.commit(shared_cloud.instance(entity_id, host=host))
    page.open(f"#/instance/{entity_id}")
    page.wait_text(".history > li:first-child", "cmp-muc-0017", 30)
    links = "return [...document.querySelectorAll(arguments[0])].map((one) => one.getAttribute('href'))"
    hosts = page.run(links, ".history > li:first-child li a")
    assert hosts == ["#/compute_node/cmp-ams-0003", "#/compute_node/cmp-muc-0017"]
    wait_until(
        lambda: "#/compute_node/cmp-muc-0017" in page.run(links, ".entity .fields a"), 30, "the link of the host"
    )
    page.choose(".history > li:first-child li a", "cmp-ams-0003")
    page.wait_text(".entity h2", "cmp-ams-0003", 30)
    page.browser.back()
    page.wait_text(".entity .kind", "instance", 30)
