# SPDX-License-Identifier: Apache-2.0
"""A simulated cloud: legal histories of Nova notifications, and the truth after them.

Recorded samples cannot show whether the model is right. Here operations on servers, hosts and aggregates overlap, and
publish what a real Nova publishes.

Guarantee: one seed and one set of arguments give one history, byte for byte.

Envelope times grow strictly, unless ``clock_skew`` sets the publishers' clocks apart. The method ``reported`` covers
exactly the events that the caller consumed. The method ``truth`` returns what the cloud's database holds then.

Not simulated: real durations, quotas and scheduling. Time is simulated; the caller paces. Another thread may read
:attr:`CloudSimulator.database` while it holds its lock. Nothing else is thread-safe.
"""

from __future__ import annotations

import datetime
import functools
import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from watcher_sync.testing.disorder import dropped, duplicated, shuffled
from watcher_sync.testing.ledger import Truth
from watcher_sync.testing.nova import host_operations, move_operations, notifications, server_operations
from watcher_sync.testing.nova.control_plane import ControlPlane, Steps
from watcher_sync.testing.nova.database import Capacity, Database, Host, Record, Server
from watcher_sync.testing.nova.notification_types import OTHER
from watcher_sync.testing.nova.notifications import Document
from watcher_sync.testing.nova.recording import write_jsonl

__all__ = ("CloudSimulator", "Truth", "dropped", "duplicated", "pace", "shuffled", "write_jsonl")

T = TypeVar("T")

_FLAVORS = tuple(
    {
        **notifications.flavor()[notifications.DATA],
        "name": name, "flavorid": f"{i}c9a{i}f0e-7d21-4b6f-9a40-5e8b1d2c3f4a", "vcpus": vcpus, "memory_mb": memory,
        "root_gb": root, "ephemeral_gb": ephemeral, "swap": swap,
        "extra_specs": {"hw:cpu_policy": policy, "hw:mem_page_size": "large", "hw:watchdog_action": "disabled",
                        "hw_rng:allowed": "True", "quota:vif_inbound_average": "125000"} if policy else {},
    }
    for i, (name, vcpus, memory, root, ephemeral, swap, policy) in enumerate((
        ("m1.tiny", 1, 512, 1, 0, 0, ""),
        ("m1.small", 2, 2048, 20, 0, 0, "shared"),
        ("m1.large", 4, 8192, 80, 10, 1024, "shared"),
        ("vnf.dedicated", 8, 16_384, 40, 0, 1, "dedicated"),
        ("vnf.diskless", 6, 12_288, 0, 0, 1536, "dedicated"),
    ))
)  # fmt: skip

_MIGRATIONS, _WEIGHTS = tuple(move_operations.MIGRATIONS), tuple(move_operations.MIGRATIONS.values())
_OTHER = sorted(event_type for event_type in OTHER if not event_type.startswith("compute_task."))
_CAPACITIES = (
    Capacity(),
    Capacity(vcpus=64, memory_mb=262_144, disk_gb=4_000, reserved_vcpus=2, reserved_memory_mb=4_096, vcpu_ratio=16.0),
    Capacity(vcpus=48, memory_mb=196_608, disk_gb=1_500, reserved_disk_gb=50, memory_ratio=1.5, disk_ratio=1.2),
)


class CloudSimulator:
    """One cloud.

    :param seed: decides everything random.
    :param hosts: number of compute hosts, at least 3.
    :param instances: number of servers that :meth:`populate` boots, and around which the number stays.
    :param start: when the history begins, aware UTC.
    :param zones: number of availability zones.
    :param failures: fraction (0..1) of the boots, rebuilds, resizes, evacuations and deletions that fail.
    :param undeclared: fraction of hosts whose service was created before the history begins.
    :param legacy: fraction of hosts of an older release, whose payloads have no ``locked``.
    :param starts: whether the ``.start`` events are published, which no handler uses.
    :param concurrency: operations that run side by side.
    :param notify_on_state_change: whether instance.update is published, which Nova's default configuration hides.
    :param clock_skew: how far the publishers' clocks are apart at most, in seconds.
    :raises ValueError: for fewer than 3 hosts.
    """

    def __init__(
        self,
        *,
        seed: int,
        hosts: int,
        instances: int,
        start: datetime.datetime = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC),
        zones: int = 3,
        failures: float = 0.03,
        undeclared: float = 0.05,
        legacy: float = 0.0,
        starts: bool = True,
        concurrency: int = 16,
        notify_on_state_change: bool = True,
        clock_skew: float = 0.0,
    ) -> None:
        if hosts < 3:
            raise ValueError(f"hosts must be 3 or more, not {hosts}")
        self._rng = random.Random(seed)
        self._plane = ControlPlane(
            rng=self._rng,
            start=start,
            starts=starts,
            notify_on_state_change=notify_on_state_change,
            clock_skew=clock_skew,
        )
        self.database: Database = self._plane.database
        """What Nova and Placement hold."""
        self.database.flavors.extend(_FLAVORS)
        self._target = instances
        self._failures = failures
        self._starts = starts
        self._concurrency = concurrency
        self._populated = False
        self._running: list[tuple[int, int, Steps, Server | None]] = []
        self._order = itertools.count()
        self._names = itertools.count(1)
        self._projects = [self._plane.new_id().replace("-", "") for _ in range(8)]
        self._aggregates = host_operations.Aggregates(self._plane, zones)
        for i in range(hosts):
            self._plane.hosts.append(self._host(i, hosts, undeclared, legacy))
        self._stream = self._live()

    def follow(self, clock: Callable[[], float]) -> None:
        """From here on, write the times of a clock. The history is the same but for its times.

        :param clock: seconds since 1970, such as ``time.time``.
        """
        self._plane.clock = lambda: int(clock() * 1_000_000)

    def populate(self) -> Iterator[Document]:
        """The events until all hosts, aggregates and the first servers are there; none when they are."""
        while not self._populated:
            event = next(self._stream)
            if event is not None:
                yield event

    def events(self) -> Iterator[Document]:
        """The events from here on, without end (those of :meth:`populate` first)."""
        for event in self._stream:
            if event is not None:
                yield event

    def history(self, n: int) -> list[Document]:
        """The next n events."""
        return list(itertools.islice(self.events(), n))

    def truth(self) -> Truth:
        """kind -> id -> field -> value: what the cloud is, and the model after a reconciliation.

        Datetimes are aware UTC; every public field of the kind is there. A field that depends on the model's own
        processes is :data:`~watcher_sync.testing.ledger.ANYTHING`.
        """
        with self.database.lock:
            return self._plane.ledger.truth()

    def reported(self) -> Truth:
        """What the model has to hold after the events taken so far, without any reconciliation.

        A field that only reconciliation can know is :data:`~watcher_sync.testing.ledger.ANYTHING`.
        """
        with self.database.lock:
            return self._plane.ledger.reported()

    def doubtful(self) -> set[str]:
        """The instances whose last events' clocks contradict their order; none without ``clock_skew``."""
        return self._plane.ledger.doubtful()

    def _live(self) -> Iterator[Document | None]:
        """The one stream that all take from; None where something is over without an event."""
        yield from self._drive(host_operations.found_services(self._plane))
        yield from self._drive(self._aggregates.found())
        left = self._target
        while left or self._running:
            while left and len(self._running) < self._concurrency:
                left -= 1
                self._begin(*self._boot())
            yield from self._step()
        self._populated = True
        yield None
        while True:
            while len(self._running) < self._concurrency:
                self._begin(*self._choose())
            yield from self._step()

    def _begin(self, steps: Steps, server: Server | None) -> None:
        due = self._plane.now + self._rng.randrange(1, 2_000_000)
        heapq.heappush(self._running, (due, next(self._order), steps, server))

    def _step(self) -> Iterator[Document]:
        """Let the operation that is due go on until it waits or ends."""
        due, _, steps, server = heapq.heappop(self._running)
        self._plane.now = max(self._plane.now, due)
        while (step := self._next(steps)) is not None:
            if isinstance(step, float):
                due = self._plane.now + int(step * 1_000_000)
                heapq.heappush(self._running, (due, next(self._order), steps, server))
                return
            self._plane.now += 50 + int(self._rng.random() * 5_000)
            if self._wanted(step):
                yield step
        if server is not None:
            server.busy = False

    def _next(self, steps: Steps) -> Document | float | None:
        with self.database.lock:
            self.database.changes += 1
            return next(steps, None)

    def _drive(self, steps: Steps) -> Iterator[Document]:
        while (step := self._next(steps)) is not None:
            assert not isinstance(step, float)  # what is founded is founded at once
            self._plane.now += 50 + int(self._rng.random() * 5_000)
            if self._wanted(step):
                yield step

    def _wanted(self, event: Document) -> bool:
        """Whether the event is published; only then it counts as a heartbeat."""
        if not self._starts and event["event_type"].endswith(".start"):
            return False
        self._plane.ledger.seen(event["event_type"], event["publisher_id"], event["timestamp"])
        return True

    def _choose(self) -> tuple[Steps, Server | None]:
        """What happens next in the cloud."""
        rng, plane = self._rng, self._plane
        chance = rng.random()
        if chance < 0.03:
            return host_operations.change_host(plane, rng.choice(plane.hosts), others=plane.hosts), None
        if chance < 0.04:
            return self._aggregates.change(), None
        if chance < 0.05:
            return self._elsewhere(), None
        short = self._target - len(plane.servers)
        if short > 0 and chance < (0.3 if short * 20 > self._target else 0.12):
            return self._boot()
        for _ in range(8):
            if not plane.servers:
                break
            server = rng.choice(plane.servers)
            if not server.busy:
                server.busy = True
                return self._operate(server), server
            if rng.random() < 0.5:  # beside what runs
                return server_operations.edit(plane, server), None
        return self._elsewhere(), None

    def _operate(self, server: Server) -> Steps:
        """One of the operations that are legal for the server as it is."""
        rng, plane, state = self._rng, self._plane, server.state
        surplus = len(plane.servers) >= self._target
        fails = rng.random() < self._failures
        if server.host is not None and not server.host.works:
            if rng.random() < 0.15 or state not in ("active", "stopped"):
                return server_operations.delete(plane, server, fails=fails)
            return move_operations.evacuate(plane, server, fails=fails)
        if state == "error" or rng.random() < (0.08 if surplus else 0.03):
            return server_operations.delete(plane, server, fails=fails)
        if rng.random() < 0.15:
            return server_operations.edit(plane, server)
        return rng.choice(self._able(server, fails=fails))()

    def _able(self, server: Server, *, fails: bool) -> list[Callable[[], Steps]]:
        plane, state = self._plane, server.state
        able: list[Callable[[], Steps]] = [
            functools.partial(server_operations.act, plane, server, what)
            for what in server_operations.ACTS
            if state in what.states
        ]
        if state in ("shelved", "shelved_offloaded"):
            able.append(lambda: server_operations.unshelve(plane, server))
        if state == "shelved":
            able.append(lambda: server_operations.shelve_offload(plane, server))
        if state in ("active", "stopped"):
            offload = self._rng.random() < 0.7
            able.append(lambda: server_operations.rebuild(plane, server, fails=fails))
            able.append(lambda: server_operations.shelve(plane, server, offload=offload))
            able.append(lambda: server_operations.attach(plane, server))
        if state == "active":
            flavor = self._rng.choice(_FLAVORS)
            resized = "fails" if fails else self._rng.choice(("confirmed", "confirmed", "reverted"))
            moved = self._rng.choices(_MIGRATIONS, _WEIGHTS)[0]
            able.append(lambda: move_operations.resize(plane, server, flavor, ends=resized))
            able += [lambda: move_operations.live_migrate(plane, server, ends=moved)] * 2
        return able or [_nothing]

    def _boot(self) -> tuple[Steps, Server]:
        server = Server(self._record())
        self._plane.servers.append(server)
        failed = self._rng.random() < self._failures
        fails = self._rng.choice(("everywhere", "once", "abort")) if failed else None
        return move_operations.boot(self._plane, server, fails=fails), server

    def _record(self) -> Record:
        """A server as the API makes it; times are filled in at its first notification."""
        rng, plane = self._rng, self._plane
        name = f"vm-{next(self._names)}"
        return {
            **notifications.instance_record(),
            "uuid": plane.new_id(), "display_name": name, "host_name": name, "host": None, "node": None,
            "display_description": f"{name}, made by the simulated cloud for its tests",
            "tenant_id": rng.choice(self._projects), "user_id": rng.choice(self._projects)[::-1],
            "key_name": rng.choice((None, "operators")), "availability_zone": None,
            "image_uuid": "" if rng.random() < 0.2 else plane.new_id(), "flavor": rng.choice(_FLAVORS),
            "metadata": {"role": rng.choice(("vnf", "worker")), "site": f"edge-{rng.randrange(50)}",
                         "owner": "platform", "recovery": "evacuate", "backup": "weekly"},
            "state": "building", "task_state": "scheduling", "power_state": "pending", "locked": False,
            "locked_reason": None, "ip_addresses": [], "block_devices": [], "created_at": plane.second(),
            "updated_at": None, "launched_at": None, "deleted_at": None, "terminated_at": None,
            "reservation_id": f"r-{rng.randrange(36**6):08d}", "request_id": f"req-{plane.new_id()}",
        }  # fmt: skip

    def _elsewhere(self) -> Steps:
        """Something that is no business of the model."""
        yield self._plane.publish_other(self._rng.choice(_OTHER))

    def _host(self, i: int, hosts: int, undeclared: float, legacy: float) -> Host:
        rng = self._rng
        new_id = self._plane.new_id
        name = new_id() if i % 17 == 5 else f"compute-{i}"
        host = Host(name, number=i + 1, uuid=new_id(), service_uuid=new_id())
        host.capacity = _CAPACITIES[i % len(_CAPACITIES)]
        host.updated_at = self._plane.second()
        host.node = f"{host.name}.edge.example.org" if i % 2 else host.name
        host.service_zone = rng.choice((None, None, "nova"))
        host.spare = i % 20 == 1
        host.declared = host.spare or hosts - i > hosts * undeclared
        host.legacy = rng.random() < legacy
        return host


def _nothing() -> Steps:
    """The server is left alone for now."""
    yield from ()


def pace(
    events: Iterator[T], rate: float, *, clock: Callable[[], float], sleep: Callable[[float], object]
) -> Iterator[T]:
    """The same events, no more than ``rate`` a second.

    :param clock: monotonic seconds, such as ``time.monotonic``.
    :param sleep: waits for some seconds, such as ``time.sleep``.
    """
    begin = clock()
    for number, event in enumerate(events):
        ahead = number / rate - (clock() - begin)
        if ahead > 0.001:
            sleep(ahead)
        yield event
