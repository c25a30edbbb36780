# SPDX-License-Identifier: Apache-2.0
"""A story in a real browser: what goes wrong is on the page within 30 seconds, is found, is explained, and goes.

A real engine follows a cluster and a broker. The figures are the seconds from the accident to the page.
"""

from __future__ import annotations

import datetime
import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.engine import conftest as engines
from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.waiting import deadline, wait_until
from watcher_sync.demo.network_functions import CORE, FUNCTIONS
from watcher_sync.testing.kubernetes import Hang, KubernetesServer, Silence
from watcher_sync.testing.nova import notifications

pytestmark = [pytest.mark.rare, pytest.mark.timeout(900)]

install, line = engines.install, engines.line

VISIBLE_SECONDS = 30.0
HEALED_SECONDS = 120.0

AMF = FUNCTIONS[0]
HOST = "cmp-ams-0001"

ROWS = "return [...document.querySelectorAll('.front .data tbody th')].map((cell) => cell.innerText.trim())"
CHOOSE = "one.value = given[0]; one.dispatchEvent(new Event('input', {bubbles: true}))"


class Story:
    """The page, and how long each accident took to be seen."""

    def __init__(self, page: Page, folder: Path, figure: Callable[[str], None]) -> None:
        self.page = page
        self._folder = folder
        self._figure = figure

    def shows(self, accident: str, act: Callable[[], object], seen: Callable[[], object]) -> None:
        """What happens, and when it is on the page."""
        began = time.monotonic()
        act()
        wait_until(seen, 4 * VISIBLE_SECONDS, f"{accident} on the page")
        seconds = time.monotonic() - began
        self.page.screenshot(f"story-{accident.replace(' ', '-')}", self._folder)
        self._figure(f"{accident}: on the page after {seconds:.1f} s")
        assert seconds < VISIBLE_SECONDS

    def finds(self, text: str, name: str) -> None:
        """The search finds it."""
        self.page.open()
        self.page.on("#search", CHOOSE, text)
        wait_until(lambda: name in self.page.text(".found"), 60, f"{name} in what the search finds")

    def lists(self, kind: str, filters: str, names: list[str]) -> None:
        """The filter of the table finds these and no others."""
        self.page.open(f"#/table/{kind}?q={filters}")
        wait_until(lambda: self.page.all(".table .data, .table .none[role=status]"), 60, "the table")
        wait_until(lambda: self.page.run(ROWS) == names, HEALED_SECONDS, f"{names} for {filters}")

    def explains(self, kind: str, entity_id: str, *texts: str) -> None:
        """The detail says why."""
        self.page.open(f"#/{kind}/{entity_id}")
        for text in texts:
            self.page.wait_text(".entity", text, 60)

    def tile(self, entity_id: str) -> str:
        """The problems of a host or cluster in the topology; empty: none."""
        return self.page.text(f'.tile[data-id="{entity_id}"] .tile-problems')

    def heals(self, entity_id: str) -> None:
        """The topology has no problem of a host or cluster any more."""
        self.page.open()
        tile = f'.tile.ok[data-id="{entity_id}"]'
        wait_until(lambda: self.page.all(tile), HEALED_SECONDS, f"{entity_id} without problems")


@pytest.fixture
def cluster() -> Iterator[KubernetesServer]:
    """A cluster whose controllers work."""
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.load(AMF.objects())
        server.cluster.settle()
        server.cluster.run()
        yield server
        server.cluster.stop()


@pytest.fixture
def nova(line: Callable[[str], Line]) -> Line:
    return line("nova")


@pytest.fixture
def site(
    install: Callable[..., Installation], sqlite_url: str, cluster: KubernetesServer, nova: Line, tmp_path: Path
) -> Installation:
    site = install(sqlite_url, engine__enabled_sources="edge, nova")
    site.options |= nova.source("nova")
    site.options["source_edge.driver"] = "kubernetes"
    site.options["source_edge.kubeconfig"] = cluster.kubeconfig(tmp_path / "edge")
    site.options["source_edge.backoff_max"] = 1
    site.upgrade()
    return site


def started(site: Installation) -> EngineProcess:
    """An engine that leads."""
    engine = site.engine(site.config())
    engine.wait_until_leading(120)
    return engine


def test_every_accident_is_on_the_page_within_30_seconds_and_goes_when_it_is_healed(
    site: Installation,
    cluster: KubernetesServer,
    nova: Line,
    browser: WebDriver,
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    numbers = itertools.count()
    first = datetime.datetime.now(datetime.UTC)

    def tell(event_type: str, **fields: object) -> None:
        now = first + datetime.timedelta(seconds=next(numbers))
        envelope = {"timestamp": now.strftime("%Y-%m-%d %H:%M:%S.%f"), "message_id": str(uuid.uuid4())}
        nova.publish([notifications.service(event_type, host=HOST, envelope=envelope, **fields)])

    def pods() -> list[str]:
        return [pod["metadata"]["name"] for pod in cluster.pods(CORE)]

    engine = started(site)
    with served(site.store, auth_strategy="noauth") as url:
        registered = httpx.post(f"{url}/v1/vnf_instances", json=AMF.registration("edge"), timeout=deadline(60))
        assert registered.status_code == 201, registered.text
        tell("service.create")
        page = Page(browser, url)
        story = Story(page, tmp_path, figure)
        story.heals(HOST)
        story.heals("edge")
        wait_until(lambda: page.all(".connection:not(.leaderless)"), 60, "an engine that leads")

        story.lists("vnf_instance", "state%3DSYNCED", ["amf"])
        page.open("#/vnfs")
        page.wait_text(".vnfs .data", "SYNCED", 60)
        story.shows(
            "a VNF instance out of range",
            lambda: cluster.cluster.scale("Deployment", "amf", 7, namespace=CORE),
            lambda: "OUT_OF_RANGE" in page.text(".vnfs .data"),
        )
        story.finds("amf", "amf")
        story.lists("vnf_instance", "state%3DOUT_OF_RANGE", ["amf"])
        story.explains("vnf_instance", AMF.id, "7 pods are above its max, 6", "above the highest allowed")
        page.open("#/drifts")
        page.wait_text("#drift-list", "7 pods are above its max", 60)
        cluster.cluster.scale("Deployment", "amf", 2, namespace=CORE)
        story.lists("vnf_instance", "state%3DOUT_OF_RANGE", [])
        story.lists("vnf_instance", "state%3DSYNCED", ["amf"])

        story.heals("edge")
        sick = pods()[0]
        story.shows(
            "a pod in a crash loop",
            lambda: cluster.cluster.crash_loop(sick, namespace=CORE),
            lambda: story.tile("edge"),
        )
        uid = next(pod["metadata"]["uid"] for pod in cluster.pods(CORE) if pod["metadata"]["name"] == sick)
        story.finds(sick, sick)
        story.lists("pod", "crash_looping%3Dtrue", [sick])
        story.explains("pod", uid, "CrashLoopBackOff", "ends again and again")
        story.explains("vnf_instance", AMF.id, f"in a crash loop: {sick}")
        cluster.cluster.restart(sick, namespace=CORE)
        story.lists("pod", "crash_looping%3Dtrue", [])
        story.heals("edge")

        story.shows(
            "a dead host",
            lambda: tell("service.update", forced_down=True, disabled=True, disabled_reason="PSU 2 failed"),
            lambda: "forced down" in story.tile(HOST),
        )
        story.finds(HOST[:7], HOST)
        story.lists("compute_node", "state%3Ddown", [HOST])
        story.explains("compute_node", HOST, "An operator declared it dead", "PSU 2 failed")
        tell("service.update")
        story.heals(HOST)

        def freeze() -> None:
            cluster.fail(Silence(), path="/api", count=None)
            cluster.fail(Silence(), path="/apis", count=None)
            cluster.fail(Hang(), path="/version", count=None)

        story.shows("a frozen cluster", freeze, lambda: "disconnected" in story.tile("edge"))
        wait_until(lambda: page.all(".source.dead, .source.late"), 60, "the source")
        story.finds("edge", "edge")
        story.lists("cluster", "state%3Ddisconnected", ["edge"])
        story.explains("cluster", "edge", "does not answer")
        cluster.heal()
        story.heals("edge")

        story.shows("a dead engine", engine.kill, lambda: "No engine leads" in page.text(".connection"))
        page.open("#/engines")
        wait_until(lambda: page.all(".engines .state.bad"), 60, "the dead engine")
        page.screenshot("story-engines", tmp_path)
        started(site)
        wait_until(lambda: page.text(".connection").startswith("Live"), HEALED_SECONDS, "an engine that leads")
