# SPDX-License-Identifier: Apache-2.0
"""Kinds of a plugin that refer to others in every way, their random history, and the graph as a walk in memory."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.model.kinds import AdminOnly, Entity, In, Kinds, Reference, Text, kind
from watcher_sync.testing.kinds import BUILTIN

Rows = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Kind -> id -> fields."""
Key = tuple[str, str]

STATES = ("active", "error", "stopped", "building")
OWNERS = ("a" * 32, "b" * 32)


@kind(
    "volume",
    plural="volumes",
    ids_reused=True,
    indexes=("instance_ids", "source_id", "pool", "backend"),
    references=(
        Reference("instance_ids", "instance", "attached_to"),
        Reference("source_id", "volume", "provided_by"),
        Reference("pool", "storage_pool", "runs_on"),
        Reference("backend", "compute_node", "provided_by"),
    ),
)
class Volume(Entity, frozen=True, kw_only=True, gc=False):
    """A disk with a list of what uses it, with what it was copied from, and a pool of a kind that is not installed."""

    name: Annotated[Text | None, In("state")] = None
    project_id: Annotated[Text | None, In("state")] = None
    status: Annotated[Text | None, In("state")] = None
    instance_ids: Annotated[list[str] | None, In("state")] = None
    source_id: Annotated[Text | None, In("state")] = None
    pool: Annotated[Text | None, In("state")] = None
    backend: Annotated[Text | None, In("state"), AdminOnly()] = None


@kind(
    "volume_group",
    plural="volume_groups",
    ids_reused=True,
    indexes=("volume_ids", "leader"),
    references=(
        Reference("volume_ids", "volume", "member_of", lists_dependents=True),
        Reference("leader", "volume_group", "member_of", lists_dependents=True),
    ),
)
class VolumeGroup(Entity, frozen=True, kw_only=True, gc=False):
    """Disks that belong together, and another group that follows this one. It has no state."""

    volume_ids: Annotated[list[str] | None, In("state")] = None
    leader: Annotated[Text | None, In("state")] = None


def related_kinds() -> Kinds:
    """Ours and the plugin's."""
    return Kinds(*BUILTIN, Volume, VolumeGroup)


def volume(entity_id: str, version: str = "1", **fields: Any) -> Upsert:
    """A change of a volume."""
    return Upsert("volume", entity_id, version, {"state": fields})


def group(entity_id: str, version: str = "1", **fields: Any) -> Upsert:
    """A change of a group of volumes."""
    return Upsert("volume_group", entity_id, version, {"state": fields})


def server(entity_id: str, version: str = "1", *, host: str | None = None, **details: Any) -> Upsert:
    """A change of an instance."""
    state = details.pop("state", "active")
    facets = {"state": {"state": state}, "details": details, "placement": {"host": host}}
    return Upsert("instance", entity_id, version, facets)


def random_change(rng: random.Random, number: int, size: int = 5) -> Change:
    """A change of one of few entities, which refers to others, itself, or what does not exist."""
    version = f"{number:05}"
    which, entity_id = rng.randrange(8), f"e{rng.randrange(size)}"

    def other() -> str | None:
        return rng.choice((None, "e1 ", "missing", *(f"e{n}" for n in range(size)), *(f"e{n}" for n in range(size))))

    def others() -> list[str]:
        return [each for each in (other(), other(), other()) if each is not None]

    if which == 0:
        return Delete(rng.choice(("volume", "volume_group", "cluster", "compute_node")), entity_id, version)
    if which == 1:
        return Upsert("compute_node", entity_id, version, {"service": {"forced_down": rng.random() < 0.5}})
    if which == 2:
        owner = {"owner_uid": other(), "cluster": other(), "project_id": rng.choice(OWNERS)}
        return Upsert("workload", entity_id, version, {"state": owner})
    if which == 3:
        return Upsert("cluster", entity_id, version, {"state": {"state": rng.choice(("connected", "disconnected"))}})
    if which == 4:
        return group(entity_id, version, volume_ids=others(), leader=other())
    if which == 5:
        state, name = rng.choice(STATES), rng.choice((None, "web"))
        return server(entity_id, version, host=other(), state=state, name=name, project_id=rng.choice(OWNERS))
    return volume(
        entity_id,
        version,
        instance_ids=rng.choice((None, others())),
        source_id=other(),
        pool=other(),
        backend=other(),
        status=rng.choice(STATES),
        project_id=rng.choice(OWNERS),
    )


def edges(kinds: Kinds, rows: Rows) -> set[tuple[Key, Key, str, str]]:
    """All edges between existing entities: the dependent one, the needed one, relation, field."""
    found = set()
    for name, of_kind in rows.items():
        for entity_id, row in of_kind.items():
            for reference in kinds[name].references:
                value = row[reference.field]
                needed = (reference.kind, *reference.or_kinds)
                for its_kind, other in itertools.product(needed, value if isinstance(value, list) else [value]):
                    if other in rows.get(its_kind, {}):
                        ends = ((name, entity_id), (its_kind, other))
                        a, b = ends[::-1] if reference.lists_dependents else ends
                        found.add((a, b, reference.relation, reference.field))
    return found


def walk(links: Collection[tuple[Key, Key, str, str]], root: Key, depth: int, direction: Literal["needs", "dependents"],
         kinds: Collection[str]) -> Iterator[tuple[Key, int]]:  # fmt: skip
    """Each entity that one direction leads to, and the number of edges to it."""
    reached = {root}
    level = {root}
    for distance in range(1, depth + 1):
        pairs = ((a, b) if direction == "needs" else (b, a) for a, b, *_ in links)
        level = {b for a, b in pairs if a in level and b[0] in kinds} - reached
        reached |= level
        yield from ((key, distance) for key in level)


def around(links: Collection[tuple[Key, Key, str, str]], root: Key, depth: int, directions: Collection[Any],
           kinds: Collection[str]) -> dict[Key, tuple[int, str]]:  # fmt: skip
    """Node -> its depth, and the direction that reached it first."""
    found: dict[Key, tuple[int, str]] = {root: (0, "root")}
    for direction in directions:
        for key, distance in walk(links, root, depth, direction, kinds):
            if key not in found or distance < found[key][0]:
                found[key] = (distance, direction)
    return found
