# SPDX-License-Identifier: Apache-2.0
"""One storm from its start to its table of figures."""

from __future__ import annotations

import collections
import contextlib
import math
import random
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from tests.faults.storm.database import Database, private_database
from tests.faults.storm.ingredients import ENGINE_SOURCES, Ingredients, sources_of
from tests.faults.storm.plan import Fault, Settings, bursts, plan
from tests.faults.storm.processes import Processes
from tests.faults.storm.readers import FeedReader, JournalWatch
from tests.faults.storm.verdict import Verdict, judge
from tests.faults.storm.writers import CLUSTER, Writers
from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.driving import Installation, Line
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.functional.webhooks.driving import BOX, OPTIONS, Record, recording
from tests.functional.webhooks.subscribing import subscribe_all
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.services.servers import Server, free_port, private_nats
from tests.waiting import wait_until

START_SECONDS: Final = 180.0
QUIET_SECONDS: Final = 180.0
COMMIT_SECONDS: Final = 45.0
"""After a calm has begun, each source has to commit within this time and twice the time of the first start.

The time of the start measures the machine: all processes of the installation may have to start again.
"""

SUBJECTS: Final = "dcm.>"
"""The agents publish to one of two tokens."""

SITE_OPTIONS: Final = {
    "engine.standby": "true", "engine.batch_size": 100, "operations.lease_time": 3,
    "engine.enabled_sources": f"nova, dcm, {CLUSTER}", "source_dcm.driver": "nats_jetstream", "source_dcm.ack_wait": 5,
    "source_dcm.subject": SUBJECTS,
    f"source_{CLUSTER}.driver": "kubernetes", f"source_{CLUSTER}.cluster": CLUSTER, f"source_{CLUSTER}.backoff_max": 2,
    **OPTIONS,
}  # fmt: skip


class Happened(msgspec.Struct):
    """A fault that came about."""

    fault: Fault
    ended: float
    """Monotonic time."""
    error: str | None = None


class Calm(msgspec.Struct):
    """A time without a fault, until each source has committed."""

    at: float
    """Seconds after the beginning of the faults."""
    after: list[str]
    """The last faults before it."""
    seconds: dict[str, float | None]
    """Source -> seconds to its first commit; None: there was none."""


class Storm:
    """What one storm was and found."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.happened: list[Happened] = []
        self.verdict = Verdict()
        self.counts: dict[str, int] = {}
        self.began = time.monotonic()
        self.resumed: dict[str, list[float | None]] = collections.defaultdict(list)
        """Name of a fault -> seconds to the first commit after each; None: there was none."""
        self.calms: list[Calm] = []
        self.start_seconds = 0.0
        """From the start of the processes to the first commit of the last source, before the first fault."""
        self.starts = 0
        self.seconds = 0.0

    def progress(self) -> str:
        """What happened so far, in one line."""
        seconds = time.monotonic() - self.began
        return f"{self.settings.database}, seed {self.settings.seed}: {len(self.happened)} faults in {seconds:.0f} s"

    @property
    def failures(self) -> list[str]:
        """Everything that is not as it must be."""
        broken = [f"{each.fault.name} at {each.fault.at:.1f} s: {each.error}" for each in self.happened if each.error]
        return broken + self._slow_calms() + self.verdict.failures

    @property
    def most_seconds(self) -> float:
        """The time that a source has to commit again."""
        return COMMIT_SECONDS + 2 * self.start_seconds

    def slowest(self, source: str) -> float | None:
        """Seconds to the first commit of a source after the beginning of a calm, at most; None: a calm had none."""
        found = [calm.seconds[source] for calm in self.calms]
        return max((each for each in found if each is not None), default=0.0) if None not in found else None

    def _slow_calms(self) -> list[str]:
        return [
            f"calm at {calm.at:.0f} s, after {', '.join(calm.after)}: "
            f"no commit of {source} within {self.most_seconds:.0f} s"
            for calm in self.calms
            for source, seconds in calm.seconds.items()
            if seconds is None or seconds > self.most_seconds
        ]

    def table(self) -> list[str]:
        """What happened, in lines."""
        settings, verdict = self.settings, self.verdict
        lines = [
            f"seed {settings.seed}, {settings.database}, {settings.seconds:.0f} s of faults, "
            f"{self.seconds:.0f} s in all, also: {', '.join(settings.also) or '-'}",
            f"{'fault, others may follow it':<32}{'count':>6}{'first commit after it, s':>28}",
        ]
        for name, seconds in sorted(self.resumed.items()):
            found = sorted(each for each in seconds if each is not None)
            none = f", none {seconds.count(None)} times" if None in seconds else ""
            times = f"{found[len(found) // 2]:.1f}, at most {found[-1]:.1f}" if found else "-"
            lines.append(f"{name:<32}{len(seconds):>6}{times + none:>28}")
        for source in ENGINE_SOURCES:
            found = sorted(calm.seconds[source] or math.inf for calm in self.calms)
            times = f"{found[len(found) // 2]:.1f}, at most {found[-1]:.1f}" if found else "-"
            lines.append(f"{f'calm, {source}':<32}{len(found):>6}{times:>28}")
        lines.append(
            f"{len(self.happened)} faults, {self.starts} starts of engines; "
            f"the first start took {self.start_seconds:.1f} s to a commit of each source"
        )
        lines.append("events: " + ", ".join(f"{name} {count:,}" for name, count in self.counts.items()))
        compared = ", ".join(f"{count:,} {kind}" for kind, count in sorted(verdict.compared.items()) if count)
        lines.append(f"compared with the truth, field by field: {compared or 'nothing'}")
        lines.append(
            f"{verdict.changes:,} changes, {verdict.feed_rows:,} rows of the feed, {verdict.webhooks:,} webhooks; "
            f"{len(verdict.differences)} differences {verdict.quiet_seconds:.1f} s after the storm, "
            f"reports {verdict.reports}"
        )
        return lines


@contextlib.contextmanager
def line_of_own(name: str) -> Iterator[tuple[Line, RabbitMQNode]]:
    """A RabbitMQ of the storm's own, with a durable queue."""
    with private_rabbitmq_node() as node:
        line = Line(name, node.url, durable=True)
        try:
            yield line, node
        finally:
            line.close()


def run(storm: Storm, folder: Path, line: Line, broker_port: int, node: RabbitMQNode | None = None) -> None:
    """Run one storm to its end. What ends it before is one of its failures.

    :param folder: for configurations and logs.
    :param line: Nova's, on a broker of this port.
    :param node: the broker, if it is the storm's own.
    """
    storm.began = time.monotonic()
    try:
        _run(storm, folder, line, broker_port, node)
    except Exception:  # noqa: BLE001 - reported with the table
        storm.verdict.failures.append(f"the storm ended before its time:\n{traceback.format_exc()}")
    storm.seconds = time.monotonic() - storm.began


def _run(storm: Storm, folder: Path, line: Line, broker_port: int, node: RabbitMQNode | None) -> None:
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(private_database(storm.settings.database, folder))
        nats = stack.enter_context(private_nats())
        dcm = stack.enter_context(dcm_of(nats.url))
        dcm.make_stream(subjects=SUBJECTS)
        record = stack.enter_context(recording())
        site = stack.enter_context(Installation(folder, database.url, SITE_OPTIONS))
        proxies = {"rabbitmq": FaultyProxy(broker_port), "nats": FaultyProxy(nats.port)}
        for proxy in proxies.values():
            stack.callback(proxy.cut)
        _weather(storm, stack, site, database, nats, dcm, line, node, proxies, record)


def _weather(
    storm: Storm, stack: contextlib.ExitStack, site: Installation, database: Database, nats: Server, dcm: Dcm,
    line: Line, node: RabbitMQNode | None, proxies: dict[str, FaultyProxy], record: Record,
) -> None:  # fmt: skip
    settings = storm.settings
    site.upgrade()
    configure(site, line, proxies)
    api_port = free_port()
    writers = Writers(settings, line, dcm, f"http://127.0.0.1:{api_port}", site.folder / "kubeconfig")
    stack.callback(writers.close)
    proxies["kubernetes"] = redirect(site.folder / "kubeconfig")
    began = time.monotonic()
    processes = Processes(site, database.server.port if database.server is not None else None, api_port)
    stack.callback(processes.close)
    names = writers.register()
    sees = {"instance_kind": "vnf_instance", "project_id": None, "sees_admin_only": True}
    subscribe_all(site.store, [record.url] * len(names), names, box=BOX, **sees)
    watch, feed = JournalWatch(site), FeedReader(writers.api.url)
    watch.start()
    feed.start()
    writers.start()
    ready = lambda: all(watch.seen.get(source) for source in ENGINE_SOURCES)  # noqa: E731
    wait_until(ready, START_SECONDS, "a commit of each source")
    storm.start_seconds = time.monotonic() - began
    rng = random.Random(f"choices-{settings.seed}")
    ingredients = Ingredients(processes, database, nats, dcm, writers, proxies, node, rng)
    try:
        _let_happen(storm, bursts(plan(settings, has_node=node is not None), settings.burst), ingredients, watch)
        ingredients.heal()
        writers.stop()
        judge(storm.verdict, settings, site, writers, processes, line, feed, watch, record, quiet=QUIET_SECONDS)
    finally:
        for reader in (feed, watch):
            reader.stop()
        storm.counts = {**writers.counts(), "repeated requests": writers.api.repeated}
        storm.starts = sum(slot.starts for slot in processes.engines)
        for each in storm.happened:
            storm.resumed[each.fault.name].append(watch.first_after(each.ended, sources_of(each.fault.name)))


def configure(site: Installation, line: Line, proxies: dict[str, FaultyProxy]) -> None:
    """Have the sources of a site read these, through the proxies."""
    durable = str(line.durable).lower()
    through = sa.make_url(line.url).set(
        port=proxies["rabbitmq"].port, query={"heartbeat_timeout_threshold": "2", "amqp_durable_queues": durable}
    )
    site.options |= {
        **line.source("nova"),
        "source_nova.transport_url": through.render_as_string(hide_password=False),
        "source_dcm.servers": f"nats://127.0.0.1:{proxies['nats'].port}",
        f"source_{CLUSTER}.kubeconfig": site.folder / "kubeconfig",
    }


def redirect(kubeconfig: Path) -> FaultyProxy:
    """Put a proxy before the API server that a kubeconfig names."""
    document = msgspec.json.decode(kubeconfig.read_bytes())
    (cluster,) = document["clusters"]
    proxy = FaultyProxy(int(cluster["cluster"]["server"].rpartition(":")[2]))
    cluster["cluster"]["server"] = f"http://127.0.0.1:{proxy.port}"
    kubeconfig.write_bytes(msgspec.json.encode(document))
    return proxy


def _let_happen(
    storm: Storm, parts: Sequence[Sequence[Sequence[Fault]]], ingredients: Ingredients, watch: JournalWatch
) -> None:
    """Let each part of the plan happen, and measure the calm after it."""
    began = time.monotonic()
    for lanes in parts:
        _run_lanes(lanes, ingredients, storm.happened)
        at = time.monotonic() - began
        last = [each.fault.name for each in storm.happened[-4:]]
        storm.calms.append(Calm(at, last, watch.wait_for_commits(ENGINE_SOURCES, storm.most_seconds)))


def _run_lanes(lanes: Sequence[Sequence[Fault]], ingredients: Ingredients, happened: list[Happened]) -> None:
    """Run the lanes beside each other, each in a thread, and add what happened."""
    began = time.monotonic()

    def run_lane(lane: Sequence[Fault]) -> None:
        for fault in lane:
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            error = None
            try:
                ingredients.run(fault.name, fault.seconds)
            except Exception as exc:  # noqa: BLE001 - the storm reports it
                error = f"{type(exc).__name__}: {exc}"
            happened.append(Happened(fault, time.monotonic(), error))

    threads = [threading.Thread(target=run_lane, args=(lane,), name="storm", daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
