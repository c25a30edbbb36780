# SPDX-License-Identifier: Apache-2.0
"""Three regions under load and one installation that follows them, whose processes are killed again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tests.functional.engine.driving import Installation, Line
from tests.functional.sources.federated import Member, is_union
from tests.services.servers import Server
from tests.waiting import Deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

SITES: Final = ("north", "south", "west")
_HOSTS: Final = 10
_INSTANCES: Final = 60
_MAX_CHANGES: Final = 100
"""Up to so many changes of the global model come between two kills, if the kill before allows any."""


class Federation:
    """The global installation and its regions, each with a simulated cloud and a line of notifications."""

    def __init__(
        self,
        install: Callable[..., Installation],
        url: str,
        line: Callable[[str], Line],
        *,
        seed: int,
        make: Callable[[str, Installation], Member] = Member,
        has_versions: bool = True,
        **options: object,
    ) -> None:
        """:param url: of the global database.

        :param make: makes a region of its name and its installation.
        :param has_versions: whether the global model has the versions of the regions.
        :param options: of the sources of the global installation.
        """
        self.whole = Member("global", install(url))
        self.regions: dict[str, Member] = {}
        self.lines: dict[str, Line] = {}
        self.clouds: dict[str, CloudSimulator] = {}
        self._has_versions = has_versions
        for number, name in enumerate(SITES):
            folder = self.whole.site.folder / name
            folder.mkdir()
            region = self.regions[name] = make(name, install(f"sqlite:///{folder / 'region.sqlite'}"))
            self.lines[name] = line(f"nova-{number}")
            self.clouds[name] = CloudSimulator(seed=seed + number, hosts=_HOSTS, instances=_INSTANCES)
            region.add_source("nova", self.lines[name].source("nova"))
            self.whole.follow(name, region, **options)

    @property
    def members(self) -> list[Member]:
        return [self.whole, *self.regions.values()]

    def start(self) -> None:
        for region in self.regions.values():
            region.start()
        self.whole.start("engine")

    def is_equal(self) -> bool:
        """Whether the global model is the union of the regions."""
        return is_union(self.whole, self.regions, versions=self._has_versions)

    def kill_in_turn(self, rng: random.Random, rounds: int, nodes: Sequence[Server] = (), progress: float = 15) -> int:
        """Kill some processes of each member, and each node, and start them again after up to a second.

        :param nodes: of a cluster, of which one at a time is killed.
        :param progress: seconds to wait for changes of the global model before each.
        :returns: the number of kills.
        """
        kills = 0
        for _ in range(rounds):
            faults = [
                *(partial(_interrupt_member, each, rng) for each in self.members),
                *(partial(_interrupt_node, each, rng) for each in nodes),
            ]
            rng.shuffle(faults)
            for fault in faults:
                wanted = self.whole.site.head() + rng.randint(1, _MAX_CHANGES)
                _try_until(lambda: self.whole.site.head() >= wanted, progress)  # noqa: B023
                kills += fault()
        return kills

    def wait_until_true(self) -> None:
        """Wait until each region has what its cloud reported."""
        for name, region in self.regions.items():
            wait_until(lambda: not self.lines[name].waiting(), 120, f"the end of the queue of {name}")  # noqa: B023
            wait_until(lambda: _is_true(region.site, self.clouds[name]), 60, f"the truth of {name}")  # noqa: B023


def _interrupt_member(member: Member, rng: random.Random) -> int:
    parts = rng.sample(sorted(member.processes), rng.randint(1, len(member.processes)))
    member.kill(*parts)
    _wait_a_moment(rng)
    member.start(*parts)
    return len(parts)


def _interrupt_node(node: Server, rng: random.Random) -> int:
    node.kill()
    _wait_a_moment(rng)
    node.start()
    return 1


def _wait_a_moment(rng: random.Random) -> None:
    """A random moment of the load."""
    moment = time.monotonic() + rng.uniform(0, 1)  # wait: a random moment of the load
    wait_until(lambda: time.monotonic() >= moment)


def _try_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until it is true, but not for longer: under faults there may be no progress."""
    limit = Deadline(seconds)
    wait_until(lambda: condition() or limit.is_over, seconds + 30)


def _is_true(site: Installation, cloud: CloudSimulator) -> bool:
    try:
        site.check_tables(cloud.reported())
    except AssertionError:
        return False
    return True
