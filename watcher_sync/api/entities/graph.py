# SPDX-License-Identifier: Apache-2.0
"""``/v1/graph`` and ``/v1/impact``: what an entity needs, and what depends on it.

The edges are the references that the kinds declare, of plugins, too. A caller sees what the lists show it: the kinds
whose rule ``{plural}:list`` allows it, and of them the entities of its project. A field that it does not see gives no
edge. With ``as_of`` the answer shows what there was then.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import AS_OF, AS_OF_ANSWER, AS_OF_HEADER, PARAMETERS
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.http.validation import FORM
from watcher_sync.api.service import ReadSource, Service
from watcher_sync.model.kinds import Kind
from watcher_sync.read.graph import MAX_DEPTH, Direction, GraphReader
from watcher_sync.read.member_states import HEALTHS, Health, health_of

MAX_NODES: Final = 500

_BOTH: Final[tuple[Direction, ...]] = ("needs", "dependents")

_REFERENCE: Final[schemas.Schema] = {"type": "string", "description": "KIND/ID."}

_NODE: Final[schemas.Schema] = {
    "type": "object",
    "required": ["kind", "id", "name", "state", "health", "depth", "direction"],
    "properties": {
        "kind": schemas.STRING,
        "id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "null: it has no name, or its kind has none."},
        "state": schemas.nullable(schemas.STRING) | {"description": "null: unknown, or its kind has none."},
        "health": {"enum": list(HEALTHS), "description": "What the state means."},
        "depth": {"type": "integer", "minimum": 0, "description": "Edges from the root, on the shortest way."},
        "direction": {"enum": ["root", *_BOTH], "description": "Whether the root needs it, or it depends on the root."},
    },
}

_EDGE: Final[schemas.Schema] = {
    "type": "object",
    "required": ["from", "to", "relation", "field"],
    "properties": {
        "from": _REFERENCE | {"description": "KIND/ID of the dependent entity."},
        "to": _REFERENCE | {"description": "KIND/ID of the entity that it needs."},
        "relation": schemas.STRING | {"description": "What the edge means, such as runs_on."},
        "field": schemas.STRING | {"description": "The field with the reference, of one of the two."},
    },
}

_ABOUT: Final[dict[str, schemas.Schema]] = {
    "seq": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
    AS_OF: AS_OF_ANSWER,
}

_GRAPH: Final[schemas.Schema] = {
    "type": "object",
    "required": ["root", "nodes", "edges", "more", "seq"],
    "properties": {
        "root": _REFERENCE,
        "nodes": {"type": "array", "items": _NODE, "description": "By depth, then the worst health, name and id."},
        "edges": {"type": "array", "items": _EDGE, "description": "All edges between these nodes."},
        "more": {
            "type": "object",
            "description": "kind -> how many further entities at least the limit left out.",
            "additionalProperties": {"type": "integer", "minimum": 1},
        },
        **_ABOUT,
    },
}

_BY_HEALTH: Final[schemas.Schema] = {
    "type": "object",
    "propertyNames": {"enum": list(HEALTHS)},
    "additionalProperties": {"type": "integer", "minimum": 1},
}

_BY_STATE: Final[schemas.Schema] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}

_IMPACT: Final[schemas.Schema] = {
    "type": "object",
    "required": ["root", "members", "health", "seq"],
    "properties": {
        "root": _REFERENCE,
        "members": {
            "type": "object",
            "description": "kind -> state -> number of dependents; an unknown state is the empty text.",
            "additionalProperties": _BY_STATE,
        },
        "health": {
            "type": "object",
            "description": "kind -> health -> number of dependents.",
            "additionalProperties": _BY_HEALTH,
        },
        **_ABOUT,
    },
}


class GraphAround:
    """``/v1/graph``: the entities around one, and the edges between them."""

    def __init__(self, service: Service) -> None:
        most = min(MAX_NODES, service.max_limit)
        self._service = service
        self.on_get = operation(
            summary="Show what an entity needs, and what depends on it, with the edges",
            description=__doc__ or "",
            rule=Rule("graph:show", PROJECT_READER),
            query={
                "root": _root(service),
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "default": 1,
                    "description": "The most edges between the root and another node.",
                },
                "direction": {
                    "enum": [*_BOTH, "both"],
                    "default": "both",
                    "description": "needs: what the root needs, what that needs, and so on. dependents: what depends "
                    "on the root, what depends on that, and so on. both: the two together.",
                },
                "kinds": {
                    "type": "array",
                    "items": {"enum": sorted(service.kinds)},
                    "minItems": 1,
                    "uniqueItems": True,
                    "description": "Only nodes of these kinds beside the root, separated by commas; all by default. "
                    "No way leads through an entity of another kind.",
                },
                "limit": schemas.limit(
                    most,
                    "The most nodes. The nearest to the root remain; of one level, what is needed, then the worst "
                    "health.",
                    default=most,
                ),
                **PARAMETERS,
            },
            responses={200: Answer(_GRAPH, headers=(AS_OF_HEADER,))},
            required=("root",),
            errors=(404, 410),
            tag="graph",
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with nodes and edges at one seq, now or as they were."""
        query, visible, root = call.query, _visible(self._service, call), _split(call)
        chosen = [name for name in visible if name in query.get("kinds", visible)]
        directions: tuple[Direction, ...] = _BOTH if query["direction"] == "both" else (query["direction"],)
        with self._service.source(call, [*{root[0], *chosen}]) as source:
            reader = _reader(self._service, call, source, visible)
            graph = reader.walk(root, depth=query["depth"], directions=directions, kinds=chosen, limit=query["limit"])
        if graph is None:
            raise not_found(" ".join(root))
        call.answer({"root": query["root"], **msgspec.structs.asdict(graph), **source.about()})


class Impact:
    """``/v1/impact``: how many entities depend on one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.on_get = operation(
            summary="Count what depends on an entity, directly or through others",
            description=f"Over at most {MAX_DEPTH} edges. An entity counts once, however many ways lead to it.",
            rule=Rule("impact:show", PROJECT_READER),
            query={"root": _root(service), **PARAMETERS},
            responses={200: Answer(_IMPACT, headers=(AS_OF_HEADER,))},
            required=("root",),
            errors=(404, 410),
            tag="graph",
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with the numbers at one seq, now or as they were."""
        visible, root = _visible(self._service, call), _split(call)
        with self._service.source(call, list(visible)) as source:
            members = _reader(self._service, call, source, visible).count_dependents(root)
        if members is None:
            raise not_found(" ".join(root))
        health = {kind: _by_health(states) for kind, states in members.items()}
        call.answer({"root": call.query["root"], "members": members, "health": health, **source.about()})


def _root(service: Service) -> schemas.Schema:
    kinds = sorted(service.kinds)
    return {
        "type": "string",
        "maxLength": 1500,
        "pattern": rf"^(?:{'|'.join(map(re.escape, kinds))})/[^\u0000]+$",
        FORM: f"KIND/ID with one of the kinds {', '.join(kinds)}",
        "description": "The entity to begin from, as KIND/ID, such as compute_node/host-1. The kind is singular; the "
        "id may have slashes.",
    }


def _split(call: Call) -> tuple[str, str]:
    """The kind and the id of the root."""
    kind, _, entity_id = call.query["root"].partition("/")
    return kind, entity_id


def _visible(service: Service, call: Call) -> dict[str, Kind]:
    """The kinds that the caller may list.

    :raises Problem: 403 when that of the root is none of them.
    """
    visible = {name: kind for name, kind in service.kinds.items() if call.context.may(f"{kind.plural}:list")}
    root = service.kinds[call.query["root"].partition("/")[0]]
    if root.name not in visible:
        raise call.context.refusal([f"{root.plural}:list"])
    return visible


def _reader(service: Service, call: Call, source: ReadSource, kinds: dict[str, Kind]) -> GraphReader:
    hidden = {name: call.context.hidden(kind) for name, kind in kinds.items()}
    return GraphReader(source.connection, service.tables, kinds, scope=call.context.scope, hidden=hidden)


def _by_health(states: dict[str, int]) -> dict[Health, int]:
    found: dict[Health, int] = {}
    for state, number in states.items():
        health = health_of(state)
        found[health] = found.get(health, 0) + number
    return found
