# SPDX-License-Identifier: Apache-2.0
"""Changes to publish, and outlets that are not open."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from oslo_config import cfg

from tests.waiting import deadline
from watcher_sync.conf import opts
from watcher_sync.extensions.log.base import (
    SNAPSHOT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    UPDATED,
    LogChange,
    LogPosition,
    LogPositions,
    Outlet,
)
from watcher_sync.extensions.log.options import OUTLETS

OutletT = TypeVar("OutletT", bound=Outlet)

PARTITION = "east"
EPOCH = "e1"
_TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)


def change(seq: int, **fields: Any) -> LogChange:
    """A change of the instance ``i-<seq>``, unless the fields say otherwise."""
    entity = {"id": f"i-{seq}", "host": "host-2", "state": "active"}
    defaults = {
        "partition": PARTITION,
        "epoch": EPOCH,
        "change": UPDATED,
        "kind": "instance",
        "id": entity["id"],
        "time": _TIME,
        "delta": {"host": ("host-1", "host-2")},
        "before": {**entity, "host": "host-1"},
        "after": entity,
    }
    return LogChange(seq=seq, **{**defaults, **fields})


def changes(first: int, last: int, **fields: Any) -> list[LogChange]:
    """The changes of these seqs, both included."""
    return [change(seq, **fields) for seq in range(first, last + 1)]


def at(seq: int, epoch: str = EPOCH) -> LogPosition:
    """Of a log whose last change has a seq."""
    return LogPosition(epoch, seq, _TIME)


def snapshot(seq: int, ids: list[str], **fields: Any) -> list[LogChange]:
    """A whole snapshot of instances."""
    edge = {"kind": "", "id": "", "delta": {}, "before": None, "after": None, **fields}
    entities = [change(seq, change=SNAPSHOT, id=id_, delta={}, before=None, after={"id": id_}, **fields) for id_ in ids]
    return [change(seq, change=SNAPSHOT_BEGIN, **edge), *entities, change(seq, change=SNAPSHOT_END, **edge)]


def make_outlet(driver: type[OutletT], **options: Any) -> OutletT:
    """An outlet that is not open."""
    conf = cfg.ConfigOpts()
    opts.register_instance(conf, OUTLETS, "bus", driver.options)
    conf([], default_config_files=[])
    for option, value in {"partition": PARTITION, **options}.items():
        conf.set_override(option, value, group="outlet_bus")
    return driver("bus", conf)


def answer_timeout(seconds: float = 10) -> float:
    """The ``timeout`` of an outlet: as a deadline, and at most what the option takes."""
    return min(deadline(seconds), 300.0)


def publish(outlet: Outlet, changes: Sequence[LogChange]) -> LogPositions:
    """Publish changes with their bodies, as the framework gives them."""
    return outlet.publish([msgspec.structs.replace(each, body=outlet.encode(each)) for each in changes])
