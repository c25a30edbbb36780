# SPDX-License-Identifier: Apache-2.0
"""The first quarter of an hour: a clone, ``make demo``, the page by keyboard alone, the commands, the proof.

The figures are the seconds of each step. Nothing is asserted of them; each step has a condition that must hold.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.test_page_access import violations
from tests.waiting import deadline, wait_until

pytestmark = [pytest.mark.rare, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[3]

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

STEP = re.compile(r"^(?:install|start): [^.\n]+(?= \.\.\. )|^\d+ s$|(?<=\.\.\. )\d+ s$", re.MULTILINE)
"""What a step of the start is, and its seconds, which may have a line of their own."""

STOP = """
const [selector, text] = arguments;
const one = document.activeElement;
const is = one.matches(selector) && one.textContent.trim().startsWith(text);
const {left, right, top, bottom} = one.getBoundingClientRect();
const middle = (from, to, most) => (Math.max(0, from) + Math.min(most, to)) / 2;
const on = document.elementFromPoint(middle(left, right, innerWidth), middle(top, bottom, innerHeight));
const ring = getComputedStyle(one).outlineStyle !== "none" || one.type === "datetime-local";
const seen = one === document.body || (ring && on && (one.contains(on) || on.contains(one)));
return [is, seen ? "" : `${ring ? "covered" : "no ring"} ${one.outerHTML.slice(0, 200)}`];
"""
"""Whether what has the focus is wanted, and what is wrong if it cannot be seen. A time shows the focus of its parts."""

READY = """
const front = document.querySelector("main.side-first .side") ?? document.querySelector(".front");
return Boolean(front?.querySelector("h2")) && !front.innerText.includes("Loading…");
"""

LIVE = (".changes .rows",)
"""The list beside each view: its 200 rows are searched once for each size and theme."""


class Terminal:
    """A command on a terminal of its own, which is read all the time."""

    def __init__(self, command: str, folder: Path) -> None:
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        path = [one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != Path(sys.prefix) / "bin"]
        variables |= {"TERM": "xterm-256color", "COLUMNS": "130", "LINES": "40", "PATH": os.pathsep.join(path)}
        self._written = ""
        self.status: int | None = None
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "-c", command], variables)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._written += os.read(self._terminal, 65_536).decode(errors="replace")
            except OSError:  # the last process on the terminal has ended
                break
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    @property
    def text(self) -> str:
        """What it wrote, without colours."""
        return STYLE.sub("", self._written).replace("\r", "")

    def type(self, keys: str) -> None:
        """Keys of the person before it."""
        os.write(self._terminal, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 300) -> re.Match[str]:
        """The place of a pattern in what it writes."""
        found = re.compile(pattern, re.MULTILINE)

        def seen() -> re.Match[str] | None:
            match = found.search(self.text)
            assert match or self.status is None, f"it ended with {self.status}: {self.text[-3000:]}"
            return match

        return wait_until(seen, seconds, pattern)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Its whole session, if it runs."""
        if self.status is None:
            os.killpg(self._pid, signal.SIGKILL)
        self._reader.join(deadline(60))
        os.close(self._terminal)


class Newcomer:
    """One person with a keyboard: which steps were done, and what could not be seen."""

    def __init__(self, page: Page, figure: Callable[[str], None]) -> None:
        self.page = page
        self.unseen: list[str] = []
        self.figure = figure

    def step(self, name: str, act: Callable[[], object], until: Callable[[], Any]) -> Any:
        """Do something, and wait until it has happened."""
        began, focused = time.monotonic(), self.page.focused()
        act()
        found = wait_until(until, 60, name)
        seconds, now = time.monotonic() - began, self.page.focused()
        if now.startswith("body") and not focused.startswith("body"):
            self.unseen.append(f"the focus is lost: {name}")
        self.figure(f"{name}: {seconds:.1f} s")
        return found

    def press(self, *keys: str) -> None:
        """Keys of the keyboard, wherever the focus is."""
        for key in keys:
            ActionChains(self.page.browser).send_keys(key).perform()

    def goes_to(self, selector: str, text: str = "", *, most: int = 150) -> None:
        """Tab, until this has the focus. Every stop on the way must be visible."""
        for _ in range(most):
            self.press(Keys.TAB)
            is_there, wrong = self.page.run(STOP, selector, text)
            self.unseen += [wrong] if wrong else []
            if is_there:
                return
        raise AssertionError(f"the keyboard does not reach {selector} {text}")

    def enters(self, selector: str, text: str = "") -> None:
        """Go there and press Enter."""
        self.goes_to(selector, text)
        self.press(Keys.ENTER)

    def views(self) -> dict[str, str]:
        """Title -> address of the views that the page offers on a desk."""
        links = [one for one in self.page.all(".views a") if one.is_displayed()]
        return {one.text.rstrip("0123456789,"): urlsplit(one.get_attribute("href") or "").fragment for one in links}

    def shows(self, address: str) -> bool:
        """Whether a view is complete."""
        return bool(self.page.run("return location.hash").startswith(f"#{address}") and self.page.run(READY))

    def output(self) -> str:
        """The moment that is shown."""
        return self.page.text(".as-of output")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a newcomer has."""
    folder = tmp_path / "watcher_sync"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True, timeout=deadline(120))
    return folder


@pytest.fixture
def terminal(clone: Path) -> Iterator[Callable[[str], Terminal]]:
    """Runs commands in the clone; those that run on are killed after the test."""
    opened: list[Terminal] = []

    def run(command: str) -> Terminal:
        opened.append(Terminal(command, clone))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


def test_the_first_quarter_of_an_hour_needs_a_keyboard_and_what_the_readme_says(
    terminal: Callable[[str], Terminal],
    browser: WebDriver,
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    began = time.monotonic()
    demo = terminal("make demo")
    url = demo.wait_for(r"look yourself: (\S+)/,")[1]
    figure(f"make demo, until the address of the page: {time.monotonic() - began:.1f} s")
    said = STEP.findall(demo.text)
    for what, seconds in zip(said[::2], said[1::2], strict=True):
        figure(f"    {what}: {seconds}")
    newcomer = Newcomer(Page(browser, url), figure)
    newcomer.page.size(*WIDE)
    walk(newcomer)
    demo.wait_for("the cloud runs")
    type_commands(newcomer, terminal, url)
    check_pictures(newcomer, tmp_path)
    assert newcomer.unseen == []
    assert newcomer.page.complaints() == []
    newcomer.step("Ctrl-C, until the proof", lambda: demo.type("\x03"), lambda: demo.status is not None)
    assert re.search(r"^Equal +[\d,]+ entities", demo.text, re.MULTILINE), demo.text[-3000:]


def walk(newcomer: Newcomer) -> None:
    """The page by keyboard alone."""
    page = newcomer.page
    newcomer.step(
        "page: live, with hosts",
        lambda: page.browser.get(f"{page.url}/"),
        lambda: page.all(".connection.live") and page.all(".tile"),
    )
    wait_until(lambda: {"Services", "Subscriptions"} <= newcomer.views().keys(), what="all views")
    for title, address in newcomer.views().items():
        newcomer.step(
            f"view {title}", lambda t=title: newcomer.enters(".views a", t), lambda a=address: newcomer.shows(a)
        )

    newcomer.step("back to the topology", lambda: newcomer.enters(".views a", "Topology"), lambda: page.all(".tile"))
    host = newcomer.step(
        "a host opens",
        lambda: newcomer.enters(".tile"),
        lambda: page.all(".entity .fields") and page.text(".entity h2"),
    )
    newcomer.step("its graph is drawn", lambda: None, lambda: len(page.all(".graph .node")) > 1)
    newcomer.step(
        "a node of its graph opens",
        lambda: newcomer.enters(".graph .node:not([aria-current])"),
        lambda: page.all(".entity .fields") and page.text(".entity h2") != host,
    )
    newcomer.step(
        "a reference is followed",
        lambda: newcomer.enters(".entity .fields .link"),
        lambda: page.text(".entity h2") == host,
    )
    newcomer.step("Escape closes it", lambda: newcomer.press(Keys.ESCAPE), lambda: not page.all(".entity"))
    newcomer.step("the search finds a host", lambda: newcomer.press("/", *host), lambda: len(page.all(".tile")) == 1)
    newcomer.press(Keys.ESCAPE)

    newcomer.step(
        "the table opens", lambda: newcomer.enters(".views a", "Table"), lambda: page.all(".front .data tbody tr")
    )

    def choose_pods() -> None:
        newcomer.goes_to("#kind")
        newcomer.press("pods")

    newcomer.step("the kind pods is chosen", choose_pods, lambda: page.all(".data[data-kind=pod] tbody tr"))
    newcomer.step(
        "columns are offered", lambda: newcomer.enters(".columns summary"), lambda: page.all(".columns[open] input")
    )
    heads = len(page.all(".data thead th"))
    newcomer.goes_to(".columns input")
    for expected in (heads - 1, heads):
        newcomer.step(
            "a column goes or comes",
            lambda: newcomer.press(" "),
            lambda n=expected: len(page.all(".data thead th")) == n,
        )
    newcomer.step(
        "the filter finds pods",
        lambda: newcomer.press("/", *"phase=Running"),
        lambda: "phase" in page.run("return location.hash") and page.all(".data tbody tr"),
    )

    newcomer.step(
        "a range of time opens", lambda: newcomer.enters(".range summary"), lambda: page.all(".range[open] input")
    )
    month, day, year, hour, minute, half = page.run(
        "const t = new Date(Date.now() - 600000); const two = (n) => String(n).padStart(2, '0');"
        "return [two(t.getMonth() + 1), two(t.getDate()), String(t.getFullYear()), two(t.getHours() % 12 || 12),"
        "two(t.getMinutes()), t.getHours() < 12 ? 'AM' : 'PM']"
    )

    def type_range() -> None:
        newcomer.goes_to(".range [name=from]")
        newcomer.press(month, day, year, Keys.ARROW_RIGHT, hour, minute, "00", half)
        newcomer.enters(".range button", "Show")

    newcomer.step("changes of ten minutes", type_range, lambda: "changes in the range" in page.text(".range .note"))
    assert page.all(".change")
    newcomer.step(
        "live changes again", lambda: newcomer.enters(".range button", "Live"), lambda: not page.all(".range .note")
    )

    newcomer.enters(".views a", "Topology")
    newcomer.step(
        "the slider opens", lambda: newcomer.enters(".as-of summary"), lambda: page.all(".as-of input[type=range]")
    )

    def slide() -> None:
        newcomer.goes_to(".as-of input[type=range]")
        newcomer.press(Keys.ARROW_LEFT)

    newcomer.step("one change back", slide, lambda: "ago" in newcomer.output() and page.all(".tile"))
    before = newcomer.output().split()[0]
    newcomer.step(
        "15 minutes back, or to the oldest change",
        lambda: newcomer.enters(".as-of button", "\N{MINUS SIGN}15 min"),
        lambda: newcomer.output().split()[0] != before and len(page.all(".tile")) < 2,
    )
    newcomer.step(
        "back to now",
        lambda: newcomer.enters(".as-of button", "Now"),
        lambda: "as_of" not in page.run("return location.hash") and len(page.all(".tile")) > 30,
    )


def type_commands(newcomer: Newcomer, terminal: Callable[[str], Terminal], url: str) -> None:
    """The first commands, in a shell."""
    client = f".venv/bin/watcher-sync --endpoint {url}"

    def run(command: str, pattern: str, status: int, keys: str = "") -> str:
        shell = terminal(command)
        newcomer.step(f"$ {command.replace(client, 'watcher-sync')}", lambda: None, lambda: shell.wait_for(pattern))
        if keys:
            shell.type(keys)
        wait_until(lambda: shell.status is not None, what=f"the end of {command}")
        assert shell.status == status, shell.text
        return shell.text

    ids = re.findall(r"^\| (\S{36}) ", run(f"{client} server list --limit 5", r"^\| \S{36} .*active", 0), re.MULTILINE)
    assert len(ids) == 5
    run(f"{client} server list --state active --limit 5", r"^\| \S{36} .*active", 0)
    run(f"{client} source list", r"^\| nova ", 0)
    run(f"{client} engine list", r"leading", 0)
    run(f"{client} entity show instance {ids[0]}", rf"^\| id +\| {ids[0]}", 0)
    run(f"{client} entity history list instance {ids[0]}", r"created", 0)
    run(f"{client} event tail --follow", r"updated", 130, "\x03")
    run(f"{client} top", r"events/s", 0, "q")
    run(f"{client} srver list", r"no command 'srver list'; similar: server list", 2)
    run(".venv/bin/watcher-sync-manage jurnal tail", r"there is no 'jurnal'; did you mean journal\?", 2)


def check_pictures(newcomer: Newcomer, folder: Path) -> None:
    """A picture of every view in each size and theme, and what axe finds wrong with it."""
    page = newcomer.page
    page.browser.set_script_timeout(deadline(120))
    page.run("location.hash = '#/topology'")
    wait_until(lambda: page.all(".tile"), what="the hosts")
    host = page.run("return document.querySelector('.tile').dataset.id")
    vnf = page.run("return fetch('v1/vnf_instances').then((a) => a.json()).then((all) => all.vnf_instances[0].id)")
    views = {title.lower().replace(" ", "-"): (address, None) for title, address in newcomer.views().items()} | {
        "changes": ("/changes", ".range"),
        "quarantine": ("/quarantine", ".by-reason details"),
        "topology-past": ("/topology?as_of=5", ".as-of input"),
        "table-columns": ("/table/instance", ".columns"),
        "table-operators": ("/table/pod", "#filter-help"),
        "host": (f"/compute_node/{host}", ".graph .node"),
        "vnf": (f"/vnf_instance/{vnf}", ".graph .node"),
    }
    wrong = []
    began = time.monotonic()
    for size, scheme in ((WIDE, "light"), (PHONE, "dark"), (WIDE, "dark"), (PHONE, "light")):
        page.size(*size)
        page.media(prefers_color_scheme=scheme)
        for name, (address, unfolded) in views.items():
            where = f"{size[0]}-{scheme}-{name}"
            page.run("location.hash = arguments[0]", address)
            wait_until(lambda a=address: newcomer.shows(a), what=where)
            if unfolded:
                page.on(unfolded, "one.open = true")
            page.screenshot(where, folder)
            wrong += [f"{where}: {one}" for one in violations(page, *LIVE[name == "changes" :])]
            if page.run("return document.documentElement.scrollWidth") > size[0]:
                wrong.append(f"{where}: it is wider than the window")
    newcomer.figure(f"{4 * len(views)} pictures, each with axe: {time.monotonic() - began:.0f} s")
    assert wrong == []
