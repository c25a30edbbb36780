# SPDX-License-Identifier: Apache-2.0
"""One storm from its start to its table of figures."""

from __future__ import annotations

import collections
import contextlib
import random
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from tests.faults.storm.database import Database, private_database
from tests.faults.storm.ingredients import Ingredients, sources_of
from tests.faults.storm.plan import Fault, Settings, plan
from tests.faults.storm.processes import Processes
from tests.faults.storm.readers import FeedReader, JournalWatch
from tests.faults.storm.verdict import Verdict, judge
from tests.faults.storm.writers import CLUSTER, Writers
from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.driving import Installation, Line, wait_until
from tests.functional.outlets.driving import BOX, OPTIONS, Record, recording
from tests.functional.outlets.subscribing import subscribe_all
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.services.servers import Server, free_port, private_nats

START_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 60.0

_SUBJECTS: Final = "dcm.>"
"""The agents publish to one of two tokens."""

_OPTIONS: Final = {
    "engine.standby": "true", "engine.lease_time": 2, "engine.batch_size": 100, "operations.lease_time": 3,
    "engine.enabled_sources": f"nova, dcm, {CLUSTER}", "source_dcm.driver": "nats_jetstream", "source_dcm.ack_wait": 5,
    "source_dcm.subject": _SUBJECTS,
    f"source_{CLUSTER}.driver": "kubernetes", f"source_{CLUSTER}.cluster": CLUSTER, f"source_{CLUSTER}.backoff_max": 2,
    **OPTIONS,
}  # fmt: skip


class Happened(msgspec.Struct):
    """A fault that came about."""

    fault: Fault
    ended: float
    """Monotonic time."""
    error: str | None = None


class Storm:
    """What one storm was and found."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.happened: list[Happened] = []
        self.verdict = Verdict()
        self.counts: dict[str, int] = {}
        self.resumed: dict[str, list[float | None]] = collections.defaultdict(list)
        """Name of a fault -> seconds to the first commit after each; None: there was none."""
        self.starts = 0
        self.seconds = 0.0

    @property
    def failures(self) -> list[str]:
        """Everything that is not as it must be."""
        broken = [f"{each.fault.name} at {each.fault.at:.1f} s: {each.error}" for each in self.happened if each.error]
        return broken + self.verdict.failures

    def table(self) -> list[str]:
        """What happened, in lines."""
        settings, verdict = self.settings, self.verdict
        lines = [
            f"seed {settings.seed}, {settings.database}, {settings.seconds:.0f} s of faults, "
            f"{self.seconds:.0f} s in all, also: {', '.join(settings.also) or '-'}",
            f"{'fault':<32}{'count':>6}{'first commit after it, s':>28}",
        ]
        for name, seconds in sorted(self.resumed.items()):
            found = sorted(each for each in seconds if each is not None)
            none = f", none {seconds.count(None)} times" if None in seconds else ""
            times = f"{found[len(found) // 2]:.1f}, at most {found[-1]:.1f}" if found else "-"
            lines.append(f"{name:<32}{len(seconds):>6}{times + none:>28}")
        lines.append(f"{len(self.happened)} faults, {self.starts} starts of engines")
        lines.append("events: " + ", ".join(f"{name} {count:,}" for name, count in self.counts.items()))
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


def run(settings: Settings, folder: Path, line: Line, broker_port: int, node: RabbitMQNode | None = None) -> Storm:
    """One storm.

    :param folder: for configurations and logs.
    :param line: Nova's, on a broker of this port.
    :param node: the broker, if it is the storm's own.
    """
    storm = Storm(settings)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(private_database(settings.database))
        nats = stack.enter_context(private_nats())
        dcm = stack.enter_context(dcm_of(nats.url))
        dcm.make_stream(subjects=_SUBJECTS)
        record = stack.enter_context(recording())
        site = stack.enter_context(Installation(folder, database.url, _OPTIONS))
        proxies = {"rabbitmq": FaultyProxy(broker_port), "nats": FaultyProxy(nats.port)}
        for proxy in proxies.values():
            stack.callback(proxy.cut)
        _weather(storm, stack, site, database, nats, dcm, line, node, proxies, record)
    storm.seconds = time.monotonic() - began
    return storm


def _weather(
    storm: Storm, stack: contextlib.ExitStack, site: Installation, database: Database, nats: Server, dcm: Dcm,
    line: Line, node: RabbitMQNode | None, proxies: dict[str, FaultyProxy], record: Record,
) -> None:  # fmt: skip
    settings = storm.settings
    site.upgrade()
    _configure(site, line, proxies)
    api_port = free_port()
    writers = Writers(settings, line, dcm, f"http://127.0.0.1:{api_port}", site.folder / "kubeconfig")
    stack.callback(writers.close)
    proxies["kubernetes"] = redirect(site.folder / "kubeconfig")
    processes = Processes(site, database.server.port, api_port)
    stack.callback(processes.close)
    names = writers.register()
    sees = {"instance_kind": "vnf_instance", "project_id": None, "sees_admin_only": True}
    subscribe_all(site.store, [record.url] * len(names), names, box=BOX, **sees)
    watch, feed = JournalWatch(site), FeedReader(writers.api.url)
    watch.start()
    feed.start()
    writers.start()
    ready = lambda: all(watch.seen.get(source) for source in ("nova", "dcm", CLUSTER))  # noqa: E731
    wait_until(ready, START_SECONDS, "a commit of each source")
    rng = random.Random(f"choices-{settings.seed}")
    ingredients = Ingredients(processes, database, nats, dcm, writers, proxies, node, rng)
    storm.happened = _let_happen(plan(settings, has_node=node is not None), ingredients)
    ingredients.heal()
    writers.stop()
    storm.verdict = judge(
        settings, site, writers, processes, line, feed, watch, record, quiet=QUIET_SECONDS
    )  # fmt: skip
    for reader in (feed, watch):
        reader.stop()
    storm.counts = {**writers.counts(), "repeated requests": writers.api.repeated}
    storm.starts = sum(slot.starts for slot in processes.engines)
    for each in storm.happened:
        storm.resumed[each.fault.name].append(watch.first_after(each.ended, sources_of(each.fault.name)))


def _configure(site: Installation, line: Line, proxies: dict[str, FaultyProxy]) -> None:
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


def _let_happen(lanes: Sequence[Sequence[Fault]], ingredients: Ingredients) -> list[Happened]:
    """Run the lanes beside each other, each in a thread."""
    happened: list[Happened] = []
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
    return happened
