# SPDX-License-Identifier: Apache-2.0
"""The page by keyboard, for strangers' names, under its own security policy, and with tokens."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from selenium.common.exceptions import JavascriptException
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import HOSTILE, Cloud
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.waiting import wait_until
from watcher_sync.assembly.api import Wsgi
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.storage.groups.source_status import list_sources, mark_removed, write_sources


def test_everything_can_be_reached_by_keyboard_in_the_order_in_which_it_is_seen(page: Page) -> None:
    page.press(Keys.TAB)
    assert page.focused() == "skip"
    page.press(Keys.ENTER)
    wait_until(lambda: page.focused() == "main", what="the focus of the content")
    page.open()
    page.wait_live()
    wait_until(lambda: page.all(".change") and page.all(".quarantine summary"), 60, "the whole page")
    stops = page.tab_stops()
    order = ["skip", "button auto", "summary At an earlier time", "search", "tile error", "change"]
    places = [next(i for i, stop in enumerate(stops) if stop.startswith(wanted)) for wanted in order]
    places.append(max(i for i, stop in enumerate(stops) if stop.startswith("summary")))  # of the quarantine
    assert places == sorted(places), stops
    assert sum(stop.startswith("tile") for stop in stops) == 1
    assert sum(stop.startswith("change ") for stop in stops) == 1


def test_arrow_keys_walk_through_the_hosts_and_escape_closes_what_enter_opened(page: Page) -> None:
    page.press("/")
    wait_until(lambda: page.focused() == "search", what="the focus of the search")
    for _ in ("kinds", "zones"):
        page.press(Keys.TAB)
        assert page.focused() == "link"
    page.press(Keys.TAB)
    first = on(page)
    page.press(Keys.ARROW_RIGHT)
    second = on(page)
    page.press(Keys.ARROW_DOWN)
    below = on(page)
    page.press(Keys.ARROW_UP)
    assert len({first, second, below}) == 3
    assert on(page) == second
    page.press(Keys.END, Keys.HOME)
    assert on(page) == first
    assert ring(page) > 0
    page.press(Keys.ENTER)
    page.wait_text(".entity h2", str(first))
    wait_until(lambda: page.focused() == "entity-title", what="the focus of the panel")
    wait_until(lambda: page.all(".member"), 60, "the instances")
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.all(".entity"), 60, "the closed panel")
    wait_until(lambda: on(page) == first, what="the focus of the host")
    page.browser.back()
    page.wait_text(".entity h2", str(first))


def on(page: Page) -> object:
    """The host that has the focus."""
    return page.run("return document.activeElement.dataset.id")


def ring(page: Page) -> float:
    """How wide the ring around what has the focus is, in pixels."""
    return float(page.run("return parseFloat(getComputedStyle(document.activeElement).outlineWidth)"))


def test_slash_and_escape_work_from_a_field_that_takes_no_text(page: Page) -> None:
    page.open("#/table/instance")
    page.choose(".columns summary")
    page.on(".columns input", "one.focus()")
    page.press("/")
    wait_until(lambda: page.focused() == "filter", what="the focus of the filter")
    page.choose(".front tbody .link")
    wait_until(lambda: page.all(".entity"), 60, "the panel")
    page.on(".columns input", "one.focus()")
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.all(".entity"), 60, "the closed panel")


def test_the_focus_stays_at_the_end_of_the_pages(page: Page) -> None:
    page.open("#/table/instance")
    wait_until(lambda: page.all(".pages button:not([aria-disabled])"), 60, "the pages")
    page.on(".pages button", "one.focus()", text="Next")
    steps = 0
    while not page.run("return document.activeElement.ariaDisabled"):
        before = page.text(".pages [role=status]")
        page.press(Keys.ENTER)
        wait_until(lambda before=before: page.text(".pages [role=status]") != before, 60, "another page")
        steps += 1
    assert (steps, page.run("return document.activeElement.textContent")) == (5, "Next")
    last = page.text(".pages [role=status]")
    page.press(Keys.ENTER)
    assert page.text(".pages [role=status]") == last == "251 to 300 of 300"


def test_the_help_for_filters_has_the_operators_and_types_of_the_page(page: Page) -> None:
    page.open("#/table/instance")
    page.choose(".help summary", "Fields")
    page.wait_text(".help p", "!= < <= > >= ~ (begins with)", 60)
    forms = page.texts(".help dd")
    assert "a text" in forms
    assert not [form for form in forms if "&" in form or "eq:" in form]


def test_a_view_that_is_at_the_side_of_all_has_a_tab_while_it_is_shown(page: Page) -> None:
    visible = (
        "return [...document.querySelectorAll('.views a')].filter((one) => one.checkVisibility())"
        ".map((one) => one.innerText)"
    )
    page.size(1440, 900)
    assert "Changes" not in page.run(visible)
    page.open("#/changes")
    wait_until(lambda: "Changes" in page.run(visible), 60, "the tab of the changes")


def test_a_search_finds_hosts_and_escape_empties_it(page: Page) -> None:
    page.search("search", "muc-0017")
    wait_until(lambda: len(page.all(".tile")) == 1, 60, "one host")
    assert page.text(".tile-name") == "cmp-muc-0017"
    page.press(Keys.ESCAPE)
    wait_until(lambda: len(page.all(".tile")) == 60, 60, "all hosts")
    page.press(*"nobody")
    page.wait_text(".topology .none", "Nothing has such a name.")


def test_a_search_finds_entities_of_all_kinds_and_opens_them(page: Page, cloud: Cloud) -> None:
    entity_id = str(uuid.uuid4())
    cloud.commit(cloud.instance(entity_id, host="cmp-muc-0017", name="findme-7", state="active"))
    page.search("search", "findme")
    page.wait_text(".found", "findme-7")
    page.click(".found .link")
    page.wait_text(".entity h2", "findme-7")
    assert not page.all(".topology .none")


def test_a_name_that_is_markup_stays_a_name(page: Page, cloud: Cloud) -> None:
    entity_id = str(uuid.uuid4())
    cloud.commit(cloud.node(HOSTILE, service={"status": "disabled", "disabled_reason": HOSTILE}))
    cloud.commit(cloud.instance(entity_id, host=HOSTILE, name=HOSTILE, state=HOSTILE, metadata={HOSTILE: HOSTILE}))
    bad = Event(id=HOSTILE, type=HOSTILE, source="nova", data=HOSTILE.encode(), undecodable=HOSTILE)
    cloud.cycle.run(Batch(events=[bad]))
    page.open()
    page.wait_live()
    wait_until(lambda: HOSTILE in page.text(".tiles"), 60, "the host")
    page.wait_text(".changes", HOSTILE)
    wait_until(lambda: HOSTILE in page.text(".quarantine"), 60, "the quarantined event")
    unfold = "for (const e of document.querySelectorAll(arguments[0])) e.open = true"
    page.run(unfold, ".quarantine .reasons > details")
    wait_until(lambda: len(page.all(".quarantined details")) >= 4, 60, "the quarantined events")
    page.run(unfold, ".quarantined details")
    page.wait_text(".quarantine", "InstanceUpdatePayload")
    page.open(f"#/instance/{entity_id}")
    page.wait_text(".entity h2", HOSTILE)
    page.wait_text(".fields", HOSTILE)
    page.click(".fields .link")
    page.wait_text(".entity .kind", "compute node")
    page.wait_text(".members", HOSTILE)
    page.open("#/%3Cimg%20src%3Dx%3E/%3Cimg%20src=x%20onerror=alert(1)%3E")
    page.wait_text(".entity h2", HOSTILE)
    assert page.all("img") == []
    assert page.run("return window.alerted") is None
    assert page.complaints() == []


VIOLATIONS = """
window.violated = [];
document.addEventListener("securitypolicyviolation", (event) => violated.push(event.effectiveDirective));
new Image().src = "http://127.0.0.1:9/x.png";
document.body.setAttribute("style", "color: red");
fetch("http://127.0.0.1:9/").catch(() => {});
"""
"""What an intruder would try; each has to be refused."""


def test_the_page_keeps_its_own_security_policy(page: Page) -> None:
    page.click(".tile")
    wait_until(lambda: page.all(".history li"), 60, "the history")
    page.click(".theme button:last-child")
    assert page.run("return document.documentElement.dataset.theme") == "dark"
    assert page.complaints() == []
    page.run(VIOLATIONS)
    for directive in ("img-src", "style-src", "connect-src"):
        wait_until(lambda d=directive: any(v.startswith(d) for v in page.run("return violated")), 60, directive)
    page.complaints()
    with pytest.raises(JavascriptException, match="TrustedHTML"):
        page.run("document.body.innerHTML = '<p>markup</p>'")
    with pytest.raises(JavascriptException, match="TrustedScript"):
        page.run("document.body.setAttribute('onclick', 'alert(1)')")


def test_a_chosen_theme_outlasts_the_systems_and_a_reload(page: Page) -> None:
    page.media(prefers_color_scheme="dark")
    dark = page.run("return getComputedStyle(document.body).backgroundColor")
    page.choose(".theme button", "light")
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.open()
    page.wait_live()
    assert page.run("return getComputedStyle(document.body).backgroundColor") == light


def test_the_sources_say_whether_they_are_fresh_late_or_dead(page: Page) -> None:
    wait_until(lambda: len(page.all(".source")) == 3, 60, "the sources")
    assert "connected" in page.text(".source.fresh")
    assert "dcm" in page.text(".source.late")
    assert "no engine has reported it" in page.text(".source.late")
    assert "connection refused" in page.text(".source.dead")


def test_a_removed_source_says_so_and_so_do_its_entities(page: Page, cloud: Cloud) -> None:
    scopes = {"nova": msgspec.json.encode(NovaHandler().scopes("")).decode()}
    said = [
        msgspec.structs.replace(row, scopes=scopes.get(row.source, "[]")) for row in list_sources(cloud.store.database)
    ]
    write_sources(cloud.store.database, said)
    nova = next(row for row in said if row.source == "nova")
    mark_removed(cloud.store.database, "default", ["dcm", "edge"], nova.updated_at)
    page.open()
    page.wait_live()
    page.wait_text(".sources", "removed from the configuration")

    def is_marked() -> bool:
        page.open("#/topology")
        page.open(f"#/instance/{next(cloud.cycle.model.all('instance')).id}")
        wait_until(lambda: page.all(".fields"), 60, "the instance")
        return "source removed" in page.text(".fields")

    wait_until(is_marked, 60, "the mark; the API reads the removed sources every few seconds")


@pytest.fixture
def refused() -> list[str]:
    """The paths of the requests that the API of ``guarded`` refused with 401."""
    return []


@pytest.fixture
def guarded(cloud: Cloud, refused: list[str]) -> Iterator[tuple[str, Callable[..., str]]]:
    """The API behind Keystone's middleware: its URL, and what makes tokens."""

    def counting(application: Wsgi) -> Wsgi:
        def counted(environ: Any, start_response: Any) -> Iterable[bytes]:
            def started(status: str, *more: Any) -> Any:
                refused.extend([environ["PATH_INFO"]] * status.startswith("401"))
                return start_response(status, *more)

            return application(environ, started)

        return counted

    with AuthTokenFixture() as fixture:

        def token(*roles: str) -> str:
            made = uuid.uuid4().hex
            fixture.add_token_data(token_id=made, user_id="u" * 32, user_name="somebody", project_id="0" * 32,
                                   project_name="some", role_list=list(roles))  # fmt: skip
            return made

        with served(cloud.store, auth_strategy="keystone", wrap=counting) as url:
            yield url, token


def test_without_a_token_one_question_alone_is_refused_and_a_token_asks_for_everything(
    guarded: tuple[str, Callable[..., str]], refused: list[str], browser: WebDriver
) -> None:
    url, token = guarded
    page = Page(browser, url)
    page.open("#/vnf_instance/amf-1")
    wait_until(lambda: page.all("input#token"), 60, "the field for the token")
    page.run("dispatchEvent(new Event('visibilitychange'))")
    shown_at = time.monotonic()
    wait_until(lambda: time.monotonic() - shown_at > 6, 60, "the time after which each part asks again")
    assert len(refused) == 1
    page.fill("input#token", "made-up", Keys.ENTER)
    page.wait_text("#token-why", "refused")
    assert len(page.all("input#token")) == 1
    page.fill("input#token", token("admin"), Keys.ENTER)
    page.wait_text(".entity .note", "The model does not have it")
    wait_until(lambda: page.all(".connection.live") and page.all(".by-reason li"), 60, "all parts")


def test_with_keystone_the_page_is_for_everybody_and_its_data_for_who_has_a_token(
    guarded: tuple[str, Callable[..., str]], browser: WebDriver, tmp_path: Path
) -> None:
    url, token = guarded
    page = Page(browser, url)
    page.open()
    wait_until(lambda: page.all("input#token"), 60, "the field for the token")
    assert page.all(".tile") == []
    page.fill("input#token", "made-up", Keys.ENTER)
    page.wait_text("#token-why", "refused")
    page.screenshot("desk-token", tmp_path)
    admin = token("admin")
    page.fill("input#token", admin, Keys.ENTER)
    page.wait_live()
    wait_until(lambda: page.all(".by-reason li"), 60, "the quarantine")
    assert page.all("input#token") == []
    stored = page.run("return [Object.values(sessionStorage), Object.values(localStorage), document.cookie]")
    assert stored == [[admin], [], ""]
    page.click(".bar .link")
    wait_until(lambda: page.all("input#token") and not page.all(".tile"), 60, "an empty page")
    assert page.run("return sessionStorage.length") == 0
    assert page.all(".source, .change, .by-reason li") == []


def test_a_reader_of_a_project_follows_its_changes_and_the_page_names_what_it_may_not_see(
    guarded: tuple[str, Callable[..., str]], browser: WebDriver, tmp_path: Path
) -> None:
    url, token = guarded
    page = Page(browser, url)
    page.open()
    wait_until(lambda: page.all("input#token"), 60, "the field for the token")
    page.fill("input#token", token("reader"), Keys.ENTER)
    page.wait_text(".topology", "Hosts and clusters are for administrators.")
    page.wait_text(".sources", "The sources are for administrators.")
    page.wait_text(".quarantine", "The quarantine is for admins.")
    page.wait_text(".connection", "Live")
    page.screenshot("desk-reader", tmp_path)
