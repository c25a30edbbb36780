# SPDX-License-Identifier: Apache-2.0
"""The form for user and password, with a fake Keystone, and once with a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_access import violations
from tests.functional.security.keystone import ADMIN_PASSWORD, running_keystone
from tests.waiting import wait_until
from watcher_sync.testing.openstack import FakeOpenStack, server_error
from watcher_sync.testing.openstack.identity import PASSWORD, USERS

STORED = "return [Object.values(sessionStorage).join(), localStorage.length, document.cookie]"


@pytest.fixture
def keystone() -> Iterator[FakeOpenStack]:
    """A Keystone with the users admin and demo."""
    with FakeOpenStack() as keystone:
        yield keystone


@pytest.fixture
def page(cloud: Cloud, keystone: FakeOpenStack, browser: WebDriver) -> Iterator[Page]:
    """The page of an API with this Keystone, at the form."""
    with served(cloud.store, auth_strategy="keystone", keystone=keystone.options("admin")) as url:
        page = Page(browser, url)
        page.open("#/table/instance")
        wait_until(lambda: page.all("input[name=user]"), 60, "the form")
        yield page


def log_in(page: Page, user: str, password: str, project: str | None) -> None:
    """Fill the form in, and send it; without a project for the system."""
    for name, text in (("user", user), ("password", password)):
        page.clear(f"input[name={name}]")
        page.fill(f"input[name={name}]", text)
    page.click(f".choice:nth-of-type({1 if project is not None else 2}) input[name=scope]")
    if project is not None:
        page.clear("input[name=project]")
        page.fill("input[name=project]", project)
    page.fill("input[name=password]", Keys.ENTER)


def test_a_user_logs_in_sees_the_view_of_the_address_and_logs_out(page: Page) -> None:
    assert page.all("main .front, .sources, .views") == []
    wait_until(lambda: page.run("return document.activeElement.name") == "user", what="the focus of the user")
    log_in(page, "admin", "wrong-password", "admin")
    page.wait_text("#login-problem", "The user, the password or the project is wrong", 60)
    assert page.run("return [document.querySelector('[name=user]').value, "
                    "document.querySelector('[name=password]').value]") == ["admin", ""]  # fmt: skip
    log_in(page, "admin", PASSWORD, "admin")
    wait_until(lambda: len(page.all(".front tbody tr")) == 50, 60, "the instances")
    wait_until(lambda: page.all(".connection.live"), 60, "the live page")
    page.wait_text(".logged-in", "admin in admin", 60)
    session, local, cookie = page.run(STORED)
    assert PASSWORD not in session.replace("password", "")
    assert (local, cookie) == (0, "")
    page.browser.refresh()
    wait_until(lambda: len(page.all(".front tbody tr")) == 50, 60, "the instances after a reload")
    page.click(".logged-in button")
    wait_until(lambda: page.all("input[name=user]"), 60, "the form")
    assert page.run("return sessionStorage.length") == 0
    assert page.all(".source, .change, .front") == []
    assert not [line for line in page.complaints() if "Content Security Policy" in line]


def test_projects_have_the_names_that_the_login_gave(page: Page, keystone: FakeOpenStack, cloud: Cloud) -> None:
    entity_id, demo = min(cloud.instances), USERS["demo"].project_id
    cloud.commit(cloud.instance(entity_id, name="first", state="error", project_id=demo))
    log_in(page, "admin", PASSWORD, "admin")
    cell = f'[data-id="{entity_id}"] td[data-label="project id"]'
    page.wait_text(f'{cell} [title="{demo}"]', "demo", 60)
    page.browser.refresh()
    page.wait_text(f'{cell} [title="{demo}"]', "demo", 60)


def test_a_password_may_have_the_key_of_the_search(page: Page) -> None:
    address = page.run("return location.hash")
    page.fill("input[name=password]", "a/b")
    assert page.run("return document.querySelector('input[name=password]').value") == "a/b"
    assert page.run("return location.hash") == address


def test_an_administrator_logs_in_to_the_system_and_a_token_can_still_be_entered(
    page: Page, keystone: FakeOpenStack
) -> None:
    log_in(page, "admin", PASSWORD, None)
    page.wait_text(".logged-in", "admin in the system", 60)
    token = page.run("return sessionStorage.getItem('watcher-sync-token')")
    page.click(".logged-in button")
    wait_until(lambda: page.all(".login summary"), 60, "the form")
    page.click(".login summary")
    page.fill("input#token", token, Keys.ENTER)
    page.wait_text(".logged-in", "Forget token", 60)
    wait_until(lambda: page.all(".front tbody tr"), 60, "the instances")


def test_an_expired_or_revoked_token_leads_back_to_the_form(page: Page, keystone: FakeOpenStack) -> None:
    log_in(page, "demo", PASSWORD, "demo")
    page.wait_text(".logged-in", "demo in demo", 60)
    page.run("""const about = JSON.parse(sessionStorage.getItem('watcher-sync-session'));
                about.expires_at = new Date(Date.now() + 1000).toISOString();
                sessionStorage.setItem('watcher-sync-session', JSON.stringify(about))""")
    page.browser.refresh()
    page.wait_text("#login-why", "Your token has expired", 60)
    assert page.run("return [sessionStorage.length, document.querySelector('[name=project]').value]") == [0, "demo"]
    page.run("sessionStorage.setItem('watcher-sync-token', 'revoked')")
    page.browser.refresh()
    page.wait_text("#login-why", "The token was refused", 60)
    assert page.run("return sessionStorage.length") == 0


def test_a_keystone_that_is_down_is_said_and_the_next_attempt_works(page: Page, keystone: FakeOpenStack) -> None:
    keystone.fail(server_error(500), path="/auth/tokens", method="POST")
    log_in(page, "admin", PASSWORD, "admin")
    page.wait_text("#login-problem", "Keystone is not available now. Try again in 5 s.", 60)
    log_in(page, "admin", PASSWORD, "admin")
    page.wait_text(".logged-in", "admin in admin", 60)


def test_axe_finds_nothing_wrong_with_the_form(page: Page, tmp_path: Path) -> None:
    page.browser.set_script_timeout(120)
    found = {}
    for scheme in ("light", "dark"):
        for name, size in (("desk", WIDE), ("phone", PHONE)):
            page.size(*size)
            page.media(prefers_color_scheme=scheme)
            page.screenshot(f"{name}-{scheme}-login", tmp_path)
            found[name, scheme] = violations(page)
            assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    log_in(page, "admin", "wrong-password", "admin")
    page.wait_text("#login-problem", "wrong", 60)
    page.click(".login summary")
    page.screenshot("phone-dark-login-refused", tmp_path)
    found["refused", ""] = violations(page)
    assert not {key: wrong for key, wrong in found.items() if wrong}


@pytest.mark.rare
@pytest.mark.timeout(400)
def test_a_user_of_a_real_keystone_logs_in(cloud: Cloud, browser: WebDriver, tmp_path: Path) -> None:
    with running_keystone(tmp_path / "keystone") as keystone:
        project = keystone.project("acme")
        keystone.user("anna", project, "reader")
        service = {
            "auth_url": keystone.url, "auth_type": "password", "username": "admin", "password": ADMIN_PASSWORD,
            "project_name": "admin", "user_domain_id": "default", "project_domain_id": "default",
        }  # fmt: skip
        with served(cloud.store, auth_strategy="keystone", keystone=service) as url:
            page = Page(browser, url)
            page.open()
            for user, password, place in (
                ("anna", "wrong", "acme"), ("unknown", "anna-secret", "acme"), ("anna", "anna-secret", "admin"),
            ):  # fmt: skip
                wait_until(lambda: page.all("input[name=user]"), 60, "the form")
                log_in(page, user, password, place)
                page.wait_text("#login-problem", "The user, the password or the project is wrong", 60)
                page.open()
            wait_until(lambda: page.all("input[name=user]"), 60, "the form")
            log_in(page, "anna", "anna-secret", "acme")
            page.wait_text(".logged-in", "anna in acme", 60)
            page.wait_text(".topology", "Hosts and clusters are for administrators.", 60)
            page.wait_text(".connection", "Live", 60)
            page.click(".logged-in button")
            wait_until(lambda: page.all("input[name=user]"), 60, "the form")
            log_in(page, "admin", ADMIN_PASSWORD, None)
            page.wait_live()
