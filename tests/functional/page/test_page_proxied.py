# SPDX-License-Identifier: Apache-2.0
"""The page through nginx: with another ``Host``, below a path, and with files and answers that do not come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.page.streams import Streams
from tests.functional.security.serving import nginx_with
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until

PASS = "proxy_pass http://API;"
PLAIN = f"location / {{ {PASS} }}"
"""What many write: nginx sends the API a Host of its own then."""

SECONDS = 20

EVENTS = """
const isMeant = ({name, startTime}) => name.endsWith("/v1/events") && startTime > arguments[0];
return performance.getEntriesByType("resource").filter(isMeant).length;
"""

HOLD = r"""
const fetched = window.fetch;
window.fetch = async (...request) => {
  if (/quarantine\/[0-9]+$/.test(request[0])) await new Promise((release) => { window.release = release; });
  return fetched(...request);
};
"""
"""Holds the request for a quarantined event."""

REASON = """
const isSeen = (one) => one.checkVisibility({visibilityProperty: true});
return [...document.querySelectorAll(".problem, .boot, .banner")].filter(isSeen).map((one) => one.innerText).join();
"""

WATCH = """
window.lost = 0;
const look = () => { window.lost += document.querySelectorAll(".banner").length; };
new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
"""

HTML = 'default_type text/html; return 200 "<p>Please log in</p>";'

NOT_LOADED = {
    "forbidden-files": ("location /static/ { return 403; }", "its files under static/ do not come"),
    "html-for-files": (f"location /static/ {{ {HTML} }}", "its files under static/ do not come"),
    "no-module": ("location = /static/rate.js { return 404; }", "/static/rate.js: status 404"),
    "broken-proxy": ("location = /static/app.js { return 502; }", "/static/app.js: status 502"),
    "html-for-a-module": (f"location = /static/api.js {{ {HTML} }}", "/static/api.js: another server than the API"),
    "no-answer": ("location = /static/state.js { return 444; }", "/static/state.js: no answer came"),
    "no-library": ("location = /static/uPlot.iife.min.js { return 404; }", "/static/uPlot.iife.min.js: status 404"),
    "wrong-code": (
        'location = /static/app.js { default_type text/javascript; return 200 "}"; }', "SyntaxError: Unexpected token"
    ),
    "policy-of-the-proxy": (
        "add_header Content-Security-Policy \"script-src 'none'\";", "its files under static/ do not come"
    ),
}  # fmt: skip
"""What nginx does with the files, and what the page says of it."""

NOT_ANSWERED = {
    "unauthorized": ("return 401;", "Status 401 Unauthorized"),
    "forbidden": ("return 403;", "Status 403 Forbidden"),
    "not-found": ("return 404;", "Status 404 Not Found"),
    "broken-proxy": ("return 502;", "Status 502 Bad Gateway"),
    "html": (HTML, "Another server than the API answered, with text/html"),
    "no-answer": ("return 444;", "The API cannot be reached"),
    "another-site": ("return 302 https://login.example/;", "The API cannot be reached"),
}
"""What nginx answers for the API, and what the page says of it."""


@pytest.fixture
def proxied(shared_cloud: Cloud, browser: WebDriver, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """The page below a path of nginx with some directives of its server; ``API`` is the address of the API."""
    with ExitStack() as stack:

        def started(directives: str, path: str = "", **options: Any) -> Page:
            api = stack.enter_context(served(shared_cloud.store, auth_strategy="noauth", **options))
            url = f"http://localhost:{free_port()}"
            client = stack.enter_context(httpx.Client(base_url=url, timeout=deadline(30)))
            listen = f"listen 127.0.0.1:{client.base_url.port}; location = /ready {{ return 200; }}"
            server = f"server {{ {listen} {directives.replace('API', api.removeprefix('http://'))} }}"
            stack.enter_context(nginx_with(server, tmp_path, client, ready="/ready"))
            return Page(browser, url + path)

        yield started


def try_replay(page: Page) -> None:
    """Choose the first quarantined event, and have it applied again, which the API refuses."""
    page.click(".by-reason details summary")
    page.click(".quarantined details summary")
    page.choose(".quarantined .actions button", "Replay")
    page.wait_text(".quarantined .problem", "let the proxy pass the Host on", SECONDS)


def test_behind_a_proxy_that_changes_the_host_the_page_shows_the_model_and_why_it_cannot_write(
    proxied: Callable[..., Page],
) -> None:
    page = proxied(PLAIN)
    page.open()
    wait_until(lambda: page.all(".connection.live") and page.all(".tile"), SECONDS, "the live page")
    try_replay(page)


def test_an_event_that_comes_late_does_not_hide_why_it_was_not_applied_again(proxied: Callable[..., Page]) -> None:
    page = proxied(PLAIN)
    page.open()
    wait_until(lambda: page.all(".connection.live") and page.all(".tile"), SECONDS, "the live page")
    page.run(HOLD)
    try_replay(page)
    page.run("window.release()")
    wait_until(lambda: page.all(".quarantined pre[aria-label=Body]"), SECONDS, "the body")
    assert page.all(".quarantined .problem")


@pytest.mark.parametrize("why", NOT_LOADED)
def test_a_page_whose_files_do_not_come_says_why(proxied: Callable[..., Page], tmp_path: Path, why: str) -> None:
    directives, reason = NOT_LOADED[why]
    page = proxied(f"{PLAIN} {directives}")
    page.open()
    wait_until(lambda: reason in page.run(REASON), SECONDS, reason)
    page.screenshot(f"desk-not-loaded-{why}", tmp_path)


@pytest.mark.parametrize("why", NOT_ANSWERED)
def test_a_page_whose_api_does_not_answer_says_why(proxied: Callable[..., Page], tmp_path: Path, why: str) -> None:
    answer, reason = NOT_ANSWERED[why]
    page = proxied(f"{PLAIN} location /v1 {{ {answer} }}")
    page.open()
    wait_until(lambda: reason in page.run(REASON), SECONDS, reason)
    page.screenshot(f"desk-not-answered-{why}", tmp_path)


def test_below_a_path_the_page_and_its_lists_work(proxied: Callable[..., Page]) -> None:
    page = proxied("location /tools/ui/ { proxy_pass http://API/; }", "/tools/ui")
    page.open("#/table/instance")
    wait_until(lambda: page.all(".connection.live") and page.all(".front tbody tr"), SECONDS, "the live table")
    page.choose(".pages button", "Next")
    page.wait_text(".pages [role=status]", "51 to 100", SECONDS)
    page.choose(".front tbody .link")
    page.wait_text(".history", "created", SECONDS)


def test_an_address_below_a_path_without_its_last_slash_says_what_is_missing(proxied: Callable[..., Page]) -> None:
    page = proxied("location /ui { proxy_pass http://API/; }")
    page.browser.get(f"{page.url}/ui")
    wait_until(lambda: "the page must end with a slash" in page.run(REASON), SECONDS, "the reason")


def test_a_stream_is_live_through_a_proxy_that_compresses_all(
    proxied: Callable[..., Page], shared_cloud: Cloud
) -> None:
    streams = Streams()
    page = proxied(f"gzip on; gzip_proxied any; gzip_types *; gzip_min_length 1; {PLAIN}", wrap=streams)
    page.open()
    wait_until(lambda: page.all(".connection.live") and page.all(".tile"), SECONDS, "the live page")
    shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=71))
    seq = shared_cloud.cycle.model.generation
    wait_until(lambda: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
    assert (streams.open, streams.asked) == (1, 0)


def test_a_proxy_that_ends_silent_streams_disturbs_no_reader(proxied: Callable[..., Page], shared_cloud: Cloud) -> None:
    streams = Streams()
    page = proxied(f"proxy_read_timeout 1s; {PLAIN}", wrap=streams, stream_heartbeat=10)
    page.open()
    wait_until(lambda: page.all(".connection.live") and page.all(".tile"), SECONDS, "the live page")
    page.run(WATCH)
    wait_until(lambda: streams.begun >= 4, SECONDS, "the fourth stream")
    shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=72))
    seq = shared_cloud.cycle.model.generation
    wait_until(lambda: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
    assert not page.run("return window.lost")


@pytest.mark.parametrize("parts", [0, 1])
def test_a_proxy_that_ends_streams_gets_less_than_two_requests_a_second_and_no_change_is_lost(
    proxied: Callable[..., Page], shared_cloud: Cloud, parts: int
) -> None:
    streams = Streams(parts)
    page = proxied(PLAIN, wrap=streams, stream_rate=0)
    page.open()
    wait_until(lambda: page.all(".connection.live") and page.all(".tile"), SECONDS, "the live page")
    page.run(WATCH)
    before = streams.begun + streams.asked
    milliseconds = int(page.run("return performance.now()"))
    wait_until(lambda: page.run("return performance.now()") > milliseconds + 5000, SECONDS, "five seconds")
    assert streams.begun + streams.asked - before <= 8
    shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=73 + parts))
    seq = shared_cloud.cycle.model.generation
    wait_until(lambda: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
    assert page.all(".connection.live")
    assert not page.run("return window.lost")


def test_a_page_whose_position_is_refused_repeatedly_begins_again_less_than_twice_a_second(
    proxied: Callable[..., Page],
) -> None:
    refused = "if ($http_accept = text/event-stream) { return 410; }"
    page = proxied(f"{PLAIN} location = /v1/events {{ {refused} {PASS} }}")
    page.open()
    wait_until(lambda: page.all(".tile"), SECONDS, "the page")
    milliseconds = int(page.run("return performance.now()"))
    wait_until(lambda: page.run("return performance.now()") > milliseconds + 5000, SECONDS, "five seconds")
    assert page.run(EVENTS, milliseconds) < 20  # each time two: the last changes, and the stream
