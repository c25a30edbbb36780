# SPDX-License-Identifier: Apache-2.0
"""``graph show`` and ``impact show``: what an entity needs, and what depends on it.

People get a tree of the graph, and one line of numbers for each kind; the formats json and yaml get the API's answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from cliff import columns

from watcher_sync.client.commands.arguments import AS_OF, argument, at_least_1
from watcher_sync.client.commands.base import Noun
from watcher_sync.client.models import EntityGraph
from watcher_sync.client.terminal import plain

_HEADINGS: Final = {"needs": "needs", "dependents": "has dependents"}


def _root(text: str) -> tuple[str, str]:
    """The type of an argument: KIND/ID, whose id may have slashes."""
    kind, _, entity_id = text.partition("/")
    if not kind or not entity_id:
        raise argparse.ArgumentTypeError(f"must be KIND/ID, such as compute_node/host-1, not {text!r}")
    return kind, entity_id


def _kinds(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class Tree(columns.FormattableColumn[Any]):
    """The nodes of a graph: machine formats get them, people get a tree."""

    def __init__(self, graph: EntityGraph) -> None:
        super().__init__(msgspec.to_builtins(graph.nodes))
        self._graph = graph

    def human_readable(self) -> str:
        """Returns the lines of the tree."""
        return "\n".join(tree(self._graph))


class _StateNumbers(columns.FormattableColumn[Any]):
    """Kind -> state -> number: machine formats get the value, people get one line for each kind."""

    def human_readable(self) -> str:
        """Returns the lines."""
        return "\n".join(_numbers(kind, states) for kind, states in sorted(self._value.items()))


def tree(graph: EntityGraph) -> Iterator[str]:
    """The lines of a graph: the root, and below it both directions. Each entity is in a direction once."""
    names = {f"{node.kind}/{node.id}": node for node in graph.nodes}
    lines = {
        key: " ".join(plain(text) for text in (key, node.name and f"({node.name})", node.state) if text)
        for key, node in names.items()
    }
    yield lines[graph.root]
    for direction, heading in _HEADINGS.items():
        if not any(node.direction == direction for node in graph.nodes):
            continue
        yield f"  {heading}"
        pairs: dict[str, dict[str, str]] = {}
        for edge in graph.edges:
            here, there = (edge.source, edge.target) if direction == "needs" else (edge.target, edge.source)
            pairs.setdefault(here, {}).setdefault(there, edge.relation)
        parents: dict[str, str] = {graph.root: ""}
        level = [graph.root]
        while level:
            found = {there: here for here in reversed(level) for there in pairs.get(here, {}) if there not in parents}
            parents |= found
            level = list(found)
        yield from _below(graph.root, 2, list(names), parents, pairs, lines)
    if graph.more:
        yield f"  further: {', '.join(f'{number} {kind}' for kind, number in sorted(graph.more.items()))}"


def _below(
    key: str,
    depth: int,
    order: list[str],
    parents: Mapping[str, str],
    pairs: Mapping[str, Mapping[str, str]],
    lines: Mapping[str, str],
) -> Iterator[str]:
    for other in order:
        if parents.get(other) == key:
            yield f"{'  ' * depth}{plain(pairs[key][other])} {lines[other]}"
            yield from _below(other, depth + 1, order, parents, pairs, lines)


def _numbers(kind: str, states: Mapping[str, int]) -> str:
    most_first = sorted(states.items(), key=lambda item: (-item[1], item[0]))
    return plain(f"{kind}: " + ", ".join(f"{number} {state or 'unknown'}" for state, number in most_first))


_ROOT: Final = argument("root", type=_root, metavar="KIND/NAME_OR_ID", help="the entity, such as compute_node/host-1")

GraphShow = Noun(
    brief=("root", "nodes", "seq"),
    one=lambda client, args: _graph(
        client.graph(
            *args.root, depth=args.depth, direction=args.direction, kinds=args.kinds, limit=args.limit, as_of=args.as_of
        )
    ),
).show_command(
    "Show what an entity needs and what depends on it, as a tree.",
    _ROOT,
    argument("--depth", type=at_least_1, metavar="N", help="the most edges from the entity, 1 to 5 (default: 1)"),
    argument("--direction", choices=("needs", "dependents", "both"), help="one way only (default: both)"),
    argument("--kinds", type=_kinds, metavar="KIND,...", help="entities of these kinds only (default: all)"),
    argument("--limit", type=at_least_1, metavar="N", help="the most entities (default: 500)"),
    AS_OF,
)

ImpactShow = Noun(
    cells={"members": _StateNumbers, "health": _StateNumbers},
    one=lambda client, args: _known(client.impact(*args.root, as_of=args.as_of)),
).show_command("Count what depends on an entity, directly or through others, by kind and state.", _ROOT, AS_OF)


def _known(answer: msgspec.Struct) -> dict[str, Any]:
    """The members of an answer; ``as_of`` only if it is of the past."""
    return {name: value for name, value in msgspec.to_builtins(answer).items() if name != "as_of" or value is not None}


def _graph(graph: EntityGraph) -> dict[str, Any]:
    return {**_known(graph), "nodes": Tree(graph)}
