# SPDX-License-Identifier: Apache-2.0
"""Sphinx directives that print the registries: what is declared in code is not written down again.

``.. entity-kinds::``
    The built-in kinds: each with its facets and a table of its fields.

``.. handler-matrix::``
    The event types that the installed handlers declare, with what each handler does.

``.. service-types::``
    The built-in service types of DCM: statuses and what publishers call them instead.

All read the package that is installed where Sphinx runs.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from watcher_sync.handlers.base import Handler
from watcher_sync.handlers.dcm.service_types import BUILTIN
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Field, Kind

HANDLERS = "watcher_sync.handlers"


class _Generated(SphinxDirective):
    """A directive whose content is reStructuredText made by code."""

    has_content = False

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.content = StringList(list(self.lines()), source=type(self).__name__)
        return self.parse_content_to_nodes(allow_section_headings=True)


class EntityKinds(_Generated):
    """``.. entity-kinds::``"""

    def lines(self) -> Iterator[str]:
        for kind in sorted(builtin_kinds().values(), key=lambda k: k.name):
            yield from _kind_lines(kind)


class HandlerMatrix(_Generated):
    """``.. handler-matrix::``"""

    def lines(self) -> Iterator[str]:
        for entry_point in sorted(importlib.metadata.entry_points(group=HANDLERS), key=lambda e: e.name):
            handler = entry_point.load()
            yield from _heading(entry_point.name, "-")
            yield from inspect.cleandoc(handler.__doc__ or "").splitlines()[:1]
            yield ""
            yield from _table(("What is done", "Event types"), _handler_rows(handler), widths="40 60")


class ServiceTypes(_Generated):
    """``.. service-types::``"""

    def lines(self) -> Iterator[str]:
        rows = [
            (
                f"``{service.name}``",
                ", ".join(f"``{status}``" for status in sorted(service.statuses)),
                ", ".join(f"``{word}``: ``{status}``" for word, status in sorted(service.aliases.items())),
            )
            for service in sorted(BUILTIN, key=lambda s: s.name)
        ]
        yield from _table(("Service type", "Statuses", "What also means one of them"), rows, widths="15 50 35")


def _kind_lines(kind: Kind) -> Iterator[str]:
    yield from _heading(kind.name, "-")
    yield from inspect.cleandoc(kind.cls.__doc__ or "").splitlines()
    yield ""
    yield f":Table: ``{kind.plural}``"
    yield f":Facets: {', '.join(f'``{facet}``' for facet in kind.facets)}; ``{kind.anchor}`` carries its existence"
    if kind.indexes:
        yield f":Found by: ``id``, {', '.join(f'``{name}``' for name in kind.indexes)}"
    for reference in kind.references:
        implied = ", which exists as long as it is referred to" if reference.implies else ""
        yield f":Refers to: ``{reference.kind}`` through ``{reference.field}``{implied}"
    yield f":Ids: {'may be used again after a deletion' if kind.ids_reused else 'are never used again'}"
    yield ""
    rows = [("``id``", "str", "", "What identifies it.")]
    rows += [(f"``{f.name}``", _type(f), _facet(kind, f), f.doc) for f in kind.fields.values()]
    yield from _table(("Field", "Type", "Facet", "Meaning"), rows, widths="22 16 14 48")


def _type(field: Field) -> str:
    return f"{field.python.__name__}{' or null' if field.nullable else ''}"


def _facet(kind: Kind, field: Field) -> str:
    if field.facet is not None:
        return f"``{field.facet}``"
    return "in memory" if field.name == kind.last_seen_field else "derived"


def _handler_rows(handler: type[Handler]) -> list[tuple[str, str]]:
    types: dict[str, list[str]] = {}
    for event_type, method in sorted(handler.events.items()):
        types.setdefault(_effect(handler, method), []).append(f"``{event_type}``")
    return [(effect, ", ".join(of_effect)) for effect, of_effect in types.items()]


def _effect(handler: type[Handler], method: str | None) -> str:
    if method is None:
        return "known, and deliberately ignored"
    doc = inspect.getdoc(getattr(handler, method)) or method
    return doc.split("\n\n", 1)[0].replace("\n", " ")


def _heading(text: str, underline: str) -> Iterator[str]:
    yield from (text, underline * len(text), "")


def _table(head: tuple[str, ...], rows: list[Any], *, widths: str) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in (head, *rows):
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("entity-kinds", EntityKinds)
    app.add_directive("handler-matrix", HandlerMatrix)
    app.add_directive("service-types", ServiceTypes)
    return {"version": "1", "parallel_read_safe": True}
