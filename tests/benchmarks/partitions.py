# SPDX-License-Identifier: Apache-2.0
"""Three partitions in one global model, over a JetStream cluster of three nodes that each store every message.

Each partition is a database with an outlet in a process of its own. The global engine runs in this process, and in one
of its own while the lateness is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import nats
import psutil

from tests.benchmarks.federation import FollowedRegions, Region, Transport, followed
from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.logs import RATE, outlet_sections, running_outlet
from tests.benchmarks.places import Bench
from tests.benchmarks.regions import wait_until
from tests.benchmarks.running import running_program
from tests.functional.log.memory_log import Cloud, instance
from tests.functional.sources.federated import Sampler, quantile
from tests.services.servers import Server, private_nats_cluster
from watcher_sync.client.log import LogReader
from watcher_sync.storage.writing.journal import JournalRow, read_since

_NODES: Final = 3
_PATIENCE_SECONDS: Final = 120.0
_INSTANCES: Final = 100
"""Instances that change while the lateness is measured."""


class _LogTransport(Transport):
    """An outlet on JetStream for each partition."""

    benchmark = "partitions"
    note = "JetStream with three replicas"
    first_contact = 6_000.0

    def __init__(self, nodes: Sequence[Server]) -> None:
        self.servers = [each.url for each in nodes]
        self._published: dict[str, Callable[[], int]] = {}

    def sections(self, site: str) -> Mapping[str, dict[str, object]]:
        return outlet_sections(",".join(self.servers), site, _NODES)

    def source(self, site: str) -> dict[str, object]:
        return {"driver": "federation_log", "servers": ",".join(self.servers), "stream": site}

    @contextlib.contextmanager
    def serving(self, regions: Sequence[Region]) -> Iterator[Sequence[psutil.Process]]:
        with contextlib.ExitStack() as stack:
            for each in regions:
                self._published[each.site] = stack.enter_context(running_outlet(each.place))
            yield []

    def settle(self, regions: Sequence[Region]) -> None:
        wait_until(lambda: all(self._published[each.site]() >= each.head() for each in regions), _PATIENCE_SECONDS)
        asyncio.run(self._wait_for_models([each.site for each in regions]))

    async def _wait_for_models(self, streams: Sequence[str]) -> None:
        """Wait until the streams of the models have all that the streams of the changes have."""
        client = await nats.connect(self.servers)
        js = client.jetstream()
        for stream in streams:
            wanted = (await js.stream_info(stream)).state.last_seq
            while (await js.stream_info(f"{stream}-model")).state.last_seq < wanted:
                await asyncio.sleep(0.05)
        await client.close()


def partitions(bench: Bench) -> list[Figure]:
    """What a new reader needs for one partition, the first contact, the changes, and how late one is."""
    with private_nats_cluster(_NODES) as nodes:
        transport = _LogTransport(nodes)
        with followed(bench, transport) as regions:
            transport.settle(regions.regions)
            return [
                _new_reader(transport, regions.regions[0]),
                *regions.first_contact(),
                *regions.changes(),
                *_lateness(bench, regions),
            ]


def _new_reader(transport: _LogTransport, region: Region) -> Figure:
    began, count = time.monotonic(), 0
    with LogReader(transport.servers, stream=region.site) as log:
        for entry in log.read(timeout=60):
            if entry.change == "snapshot_end":
                break
            count += entry.change == "snapshot"
    seconds = time.monotonic() - began
    return _figure("a new reader has the current model of a partition", seconds, "s", f"{count:,} entities", 10.0)


def _lateness(bench: Bench, regions: FollowedRegions) -> list[Figure]:
    """From the commit in a partition to the commit in the global model."""
    count = bench.scale.lone * 10
    clouds = {each.site: Cloud(each.place.store) for each in regions.regions}
    sites = list(clouds)
    with Sampler(regions.overall.store) as sampler, running_program(regions.overall, "watcher-sync-engine"):

        def wait_for(rows: Mapping[str, Sequence[JournalRow]]) -> None:
            wait_until(lambda: all(sampler.has(site, rows[site][-1]) for site in sites), _PATIENCE_SECONDS)

        before = {site: cloud.write(instance(0, state="first")) - 1 for site, cloud in clouds.items()}
        wait_for(_rows(regions, before))
        before = {each.site: each.head() for each in regions.regions}
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            clouds[sites[number % len(sites)]].write(instance(number % _INSTANCES, state=f"s{number}"))
        seconds = time.monotonic() - began
        rows = _rows(regions, before)
        wait_for(rows)
    late = [lag for site in sites for lag in sampler.lags(site, rows[site])]
    note = f"{count / seconds:.0f} changes/s in three partitions, SQLite"
    return [
        _figure(f"from a commit to a commit in the global model, {name}", quantile(late, part) * 1000, "ms", note, most)
        for name, part, most in (("median", 0.5, None), ("99th percentile", 0.99, 300.0))
    ]


def _rows(regions: FollowedRegions, after: Mapping[str, int]) -> dict[str, list[JournalRow]]:
    """The rows of each journal after a sequence."""
    found = {}
    for each in regions.regions:
        store = each.place.store
        with store.database.connect() as connection:
            found[each.site] = list(read_since(connection, store.tables, after[each.site], each.head()))
    return found


def _figure(what: str, measured: float, unit: str, note: str, limit: float | None) -> Figure:
    budget = Budget("<=", limit, unit) if limit is not None else None
    return Figure(benchmark="partitions", what=what, measured=measured, unit=unit, budget=budget, note=note)
