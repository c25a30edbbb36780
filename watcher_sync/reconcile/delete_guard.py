# SPDX-License-Identifier: Apache-2.0
"""Counts the entities that a listing would delete without a replacement. Pure functions.

A pod that another pod of the same controller replaces is no loss, so a rollout never trips the guard. The controller's
uid (ownerReference) identifies the place, and the controller has to exist on both sides. Names do not count, because
another cluster may have the same.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

from watcher_sync.model.kinds import Entity
from watcher_sync.model.kubernetes import Pod, Workload
from watcher_sync.model.view import View
from watcher_sync.model.vnf.matching import top_of
from watcher_sync.reconcile.drift import Divergence


def losses(found: Iterable[Divergence], live: View) -> dict[str, int]:
    """Return kind -> entities that are gone and not replaced.

    :param live: the listed objects.
    """
    lost: collections.Counter[str] = collections.Counter()
    gone: collections.Counter[tuple[str, str]] = collections.Counter()
    new: collections.Counter[tuple[str, str]] = collections.Counter()
    for what in found:
        if what.live is None:
            assert what.model is not None
            place = _controller(what.model, live)
            if place is None:
                lost[what.kind] += 1
            else:
                gone[what.kind, place] += 1
        elif what.model is None and (place := _controller(what.live.entity, live)) is not None:
            new[what.kind, place] += 1
    for key, count in gone.items():
        lost[key[0]] += max(count - new[key], 0)
    return {kind: count for kind, count in lost.items() if count}


def _controller(entity: Entity, live: View) -> str | None:
    """Return the uid at the top of the owner chain, if the cluster still has that workload; else None."""
    if isinstance(entity, Pod) and entity.workload_uid is not None:
        uid: str | None = entity.workload_uid
    elif isinstance(entity, (Pod, Workload)):
        top = top_of(live, entity.owner_uid)
        uid = top.id if top is not None else None
    else:
        return None
    return uid if uid is not None and live.get("workload", uid) is not None else None
