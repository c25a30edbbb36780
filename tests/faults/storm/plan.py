# SPDX-License-Identifier: Apache-2.0
"""The settings of a storm, and the times of its faults. The same settings give the same plan.

The environment has the settings: ``WATCHER_SYNC_STORM_SECONDS``, ``WATCHER_SYNC_STORM_SEED``,
``WATCHER_SYNC_STORM_DATABASE`` and ``WATCHER_SYNC_STORM_ALSO``. The last one names ingredients that are off by default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final

import msgspec

DATABASES: Final = ("postgresql", "mariadb", "sqlite")

_DATABASE_CONNECTIONS: Final = ("database", "database-api")
CONNECTIONS: Final = (*_DATABASE_CONNECTIONS, "rabbitmq", "nats", "kubernetes")
"""The connections that break: those of the engines and those of the API to the database, and those to the sources."""

WAYS: Final = ("cut", "half_close_up", "half_close_down", "freeze", "refuse")
"""How they break."""

ACCIDENTS: Final = (
    "kill_leader", "kill_standby", "kill_api", "kill_outlet", "freeze_leader", "stop_leader", "terminate_sessions",
    "read_only", "restart_database", "kill_database", "restart_nats", "kill_nats", "restart_rabbitmq",
    "kubernetes_410", "kubernetes_away", "leader_machine_stops", "silent_connections", "sighup_at_start",
    "watch_list_refused",
)  # fmt: skip
"""What happens to processes and servers."""

OPTIONAL: Final = {
    "failover_to_lagging_standby": "the database is a second behind",
    "restored_database": "the database is an older backup",
    "restored_stream": "the stream is an older backup",
    "discarded_messages": "the stream discards messages that no engine has read",
}
"""Ingredients that are off unless the settings name them: they destroy data, so the verdict is another one."""

LOSING_STREAM: Final = ("restored_stream", "discarded_messages")
"""Those that destroy messages of DCM: a difference of what they said must have a report then."""

LOSING_DATABASE: Final = ("failover_to_lagging_standby", "restored_database")
"""Those that destroy commits: any difference must have a report then."""

LOSING: Final = (*LOSING_STREAM, *LOSING_DATABASE)

TURNS: Final = ((), LOSING_STREAM, LOSING_DATABASE)
"""What is on as well in the first turn through the databases, in the second and in the third."""

_OF_NODE: Final = frozenset(("restart_rabbitmq",))
"""Those that need a RabbitMQ of the storm's own."""

_OF_SERVER: Final = frozenset((
    "terminate_sessions", "read_only", "restart_database", "kill_database", "leader_machine_stops",
    "silent_connections", "failover_to_lagging_standby",
))  # fmt: skip
"""Those that need a database with a server."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One storm."""

    seed: int = 1
    seconds: float = 120.0
    database: str = "postgresql"
    also: tuple[str, ...] = ()
    """Names of optional ingredients."""
    only: tuple[str, ...] = ()
    """Names of the only ingredients; empty: all that are on."""
    pause: float = 2.0
    """Mean seconds between two faults of a lane."""
    burst: float = 20.0
    """Seconds of faults between two calms. In a calm nothing breaks until each source has committed again."""
    most: int = 100_000
    """The maximum number of faults."""
    nova_rate: float = 100.0
    dcm_rate: float = 40.0
    kubernetes_rate: float = 4.0

    @classmethod
    def from_environment(cls, **given: object) -> Settings:
        """The settings of the environment, with defaults for what it does not have."""
        environment = os.environ
        also = environment.get("WATCHER_SYNC_STORM_ALSO", "")
        found = {
            "seed": int(environment.get("WATCHER_SYNC_STORM_SEED", "1")),
            "seconds": float(environment.get("WATCHER_SYNC_STORM_SECONDS", "120")),
            "database": environment.get("WATCHER_SYNC_STORM_DATABASE", "postgresql"),
            "also": tuple(OPTIONAL) if also == "all" else tuple(filter(None, also.split(","))),
        }
        return cls(**{**found, **given})  # type: ignore[arg-type]

    def has_any(self, names: Sequence[str]) -> bool:
        """Whether one of these ingredients is on."""
        return not set(names).isdisjoint((*self.also, *self.only))


class Fault(msgspec.Struct, frozen=True):
    """One fault of the plan."""

    at: float
    """Seconds after the beginning."""
    name: str
    seconds: float
    """How long it lasts, where it lasts."""


def plan(settings: Settings, *, has_node: bool = True) -> list[list[Fault]]:
    """The faults of each lane, in order. The lanes run beside each other; the faults of one lane do not overlap.

    :param has_node: whether the storm has a RabbitMQ of its own.
    """
    unknown = set(settings.also) - OPTIONAL.keys()
    if unknown:
        raise ValueError(f"no such ingredient: {', '.join(sorted(unknown))}; there are {', '.join(OPTIONAL)}")
    rng = random.Random(f"storm-{settings.seed}")
    has_server = settings.database != "sqlite"
    connections = [each for each in CONNECTIONS if has_server or each not in _DATABASE_CONNECTIONS]
    impossible = (_OF_NODE if not has_node else frozenset()) | (_OF_SERVER if not has_server else frozenset())
    breaks = [f"{way} {connection}" for connection in connections for way in WAYS]
    accidents = [name for name in (*ACCIDENTS, *settings.also) if name not in impossible]
    if settings.only:
        breaks = [name for name in breaks if name in settings.only]
        accidents = [name for name in (*ACCIDENTS, *OPTIONAL) if name in settings.only and name not in impossible]
    return [_lane(rng, deck, settings) for deck in (breaks, accidents) if deck]


def _lane(rng: random.Random, deck: Sequence[str], settings: Settings) -> list[Fault]:
    """Each ingredient once in a random order, then each once more, and so on."""
    found: list[Fault] = []
    at = rng.uniform(0.2, settings.pause)
    names: list[str] = []
    while at < settings.seconds and len(found) < settings.most // 2:
        names = names or rng.sample(deck, len(deck))
        fault = Fault(at, names.pop(), rng.uniform(0.3, 4.0))
        found.append(fault)
        at += fault.seconds + min(rng.expovariate(1 / settings.pause), 4 * settings.pause)
    return found


def bursts(lanes: Sequence[Sequence[Fault]], seconds: float) -> list[list[list[Fault]]]:
    """The lanes in parts of so many seconds; the times of each part begin at its own beginning."""
    found: dict[int, list[list[Fault]]] = {}
    for number, lane in enumerate(lanes):
        for fault in lane:
            part = int(fault.at // seconds)
            own = msgspec.structs.replace(fault, at=fault.at - part * seconds)
            found.setdefault(part, [[] for _ in lanes])[number].append(own)
    return [found[part] for part in sorted(found)]
