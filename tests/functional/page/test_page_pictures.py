# SPDX-License-Identifier: Apache-2.0
"""Takes pictures of the page for a human review, and asserts what a program can check."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.waiting import wait_until


@pytest.mark.rare
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_systems_colours_on_a_desk_and_on_a_phone(
    page: Page, cloud: Cloud, tmp_path: Path, scheme: str
) -> None:
    page.media(prefers_color_scheme=scheme)
    page.size(*WIDE)
    cloud.busy(24)
    host = "cmp-ams-0012"
    wait_until(lambda: len(page.all(".change")) > 24, 60, "the changes")

    def has_rate() -> bool:
        """The rate is that of the last seconds, so something happens before each look."""
        cloud.busy(1)
        time.sleep(0.3)  # a change is drawn, and the page is to keep up
        return page.text(".rate .note b") not in ("", "0")

    wait_until(has_rate, 60, "a rate")
    wait_until(lambda: "…" not in page.text(".change .name"), 60, "the name of what changed")
    assert page.screenshot(f"desk-{scheme}", tmp_path).stat().st_size > 20_000
    page.click(f'[data-id="{host}"]')
    wait_until(lambda: page.all(".member"), 60, "the instances of the host")
    page.screenshot(f"desk-{scheme}-host", tmp_path)
    page.click(".member")
    page.wait_text(".entity .kind", "instance")
    wait_until(lambda: page.all(".history li"), 60, "the history")
    page.screenshot(f"desk-{scheme}-instance", tmp_path)
    assert brightness(page, "--ground") > 200 if scheme == "light" else brightness(page, "--ground") < 60
    page.click(".entity .icon")
    page.size(*PHONE)
    page.screenshot(f"phone-{scheme}", tmp_path)
    assert page.run("return document.documentElement.scrollWidth") <= PHONE[0]
    for view in ("changes", "quarantine"):
        page.choose(".views a", view.capitalize())
        wait_until(lambda view=view: page.all(f".view-{view}"), 60, view)
        page.screenshot(f"phone-{scheme}-{view}", tmp_path)
        assert page.run("return document.documentElement.scrollWidth") <= PHONE[0]
    page.open(f"#/compute_node/{host}")
    wait_until(lambda: page.all(".member"), 60, "the instances of the host")
    page.screenshot(f"phone-{scheme}-host", tmp_path)
    assert page.complaints() == []


def brightness(page: Page, name: str) -> int:
    """Of a colour of the style sheet, 0 to 255."""
    value = page.run("return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()", name)
    return int(value[1:3], 16)
