# SPDX-License-Identifier: Apache-2.0
"""Sphinx directives that print the registries: what is declared in code is not written down again.

``.. entity-kinds::``
    The built-in kinds: each with its facets and a table of its fields.

``.. handler-matrix::``
    The event types that the installed handlers declare, with what each handler does.

``.. service-types::``
    The built-in service types of DCM: statuses and what publishers call them instead.

``.. manage-commands::``
    The commands and options of ``watcher-sync-manage``.

``.. field-types::``
    The types that a field of a kind may have, with the column of each database.

All read the package that is installed where Sphinx runs.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import inspect
from collections.abc import Iterator
from typing import Any, Literal

from docutils import nodes
from docutils.statemachine import StringList
from restructured_text import heading, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sqlalchemy.dialects import mysql, postgresql, sqlite

from watcher_sync.cmd import manage
from watcher_sync.extensions.dcm.handler.service_types import BUILTIN
from watcher_sync.handlers.base import Handler
from watcher_sync.model.declarations import fields_of
from watcher_sync.model.kinds import Count, Field, Kind, LongText, Text
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database.types import column_type

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
        for kind in sorted(load_kinds().values(), key=lambda k: k.name):
            yield from _kind_lines(kind)


class HandlerMatrix(_Generated):
    """``.. handler-matrix::``"""

    def lines(self) -> Iterator[str]:
        for entry_point in sorted(importlib.metadata.entry_points(group=HANDLERS), key=lambda e: e.name):
            handler = entry_point.load()
            yield from heading(entry_point.name, "-")
            yield from inspect.cleandoc(handler.__doc__ or "").splitlines()[:1]
            yield ""
            yield from table(("What is done", "Event types"), _handler_rows(handler), widths="40 60")


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
        yield from table(("Service type", "Statuses", "What also means one of them"), rows, widths="15 50 35")


class ManageCommands(_Generated):
    """``.. manage-commands::``"""

    def lines(self) -> Iterator[str]:
        yield from manage_lines()


class FieldTypes(_Generated):
    """``.. field-types::``"""

    def lines(self) -> Iterator[str]:
        yield from field_type_lines()


def manage_lines() -> Iterator[str]:
    """Each command with a table of its arguments and options."""
    commands = argparse.ArgumentParser(prog="watcher-sync-manage").add_subparsers()
    manage.add_commands(commands)
    for name, parser in commands.choices.items():
        yield from (f"``watcher-sync-manage {name}``", f"    {parser.description}", "")
        for action in parser._actions:
            if "--help" in action.option_strings:
                continue
            words = ", ".join(action.option_strings) or action.metavar or "|".join(action.choices or ())
            value = "" if action.nargs == 0 or not action.option_strings else _value_name(action)
            text = action.help or f"one of {', '.join(action.choices or ())}"
            yield f"    ``{words}{value}``: {text}"
            yield ""


def _value_name(action: argparse.Action) -> str:
    return f" {action.metavar or '|'.join(action.choices or ()) or action.dest.upper()}"


def field_type_lines() -> Iterator[str]:
    """A table of the annotations with their JSON type and their columns."""
    rows = []
    for annotation, meaning, declared in FIELD_TYPES:
        (field,) = fields_of(type("Example", (), {"__annotations__": {"field": declared}}))
        columns = [
            column_type(field).compile(dialect=each()) for each in (postgresql.dialect, mysql.dialect, sqlite.dialect)
        ]
        rows.append((f"``{annotation}``", meaning, *(f"``{column}``" for column in columns)))
    yield from table(("Annotation", "Meaning", "PostgreSQL", "MariaDB", "SQLite"), rows, widths="20 35 15 15 15")


FIELD_TYPES: tuple[tuple[str, str, Any], ...] = (
    ("Text", "text of at most 255 characters: a name, a state, an id of something else", Text),
    ("Literal[...]", "one of the given texts; the API and the schema name them", Literal["a", "b"]),
    ("LongText", "text of at most 65,535 characters, such as a message; it cannot be sorted by", LongText),
    ("Count", "a number of things, 0 to 2^62", Count),
    ("int", "a number of 64 bits, with its sign", int),
    ("float", "a number with a fraction", float),
    ("bool", "true or false", bool),
    ("datetime.datetime", "a point of time, aware; stored in UTC with microseconds", datetime.datetime),
    ("list[str], list[dict[str, Any]]", "a JSON array; at most 512 KiB unless MaxBytes says otherwise", list[str]),
    ("dict[str, str], dict[str, Any]", "a JSON object; filters see its members, as labels[app]", dict[str, str]),
)
"""(annotation, meaning, an example) of each type that a field may have."""


def _kind_lines(kind: Kind) -> Iterator[str]:
    yield from heading(kind.name, "-")
    yield from inspect.cleandoc(kind.cls.__doc__ or "").splitlines()
    yield ""
    yield f":Table: ``{kind.plural}``"
    yield f":Facets: {', '.join(f'``{facet}``' for facet in kind.facets)}; ``{kind.anchor}`` carries its existence"
    if kind.indexes:
        yield f":Found by: ``id``, {', '.join(f'``{name}``' for name in kind.indexes)}"
    for reference in kind.references:
        implied = ", which exists as long as it is referred to" if reference.implies else ""
        listed = ", which depend on it" if reference.lists_dependents else ""
        through = f"``{reference.field}`` ({reference.relation})"
        yield f":Refers to: ``{reference.kind}`` through {through}{listed}{implied}"
    yield f":Ids: {'may be used again after a deletion' if kind.ids_reused else 'are never used again'}"
    yield ""
    rows = [("``id``", "str", "", "What identifies it.")]
    rows += [(f"``{f.name}``", _type(f), _facet(kind, f), f.doc) for f in kind.fields.values()]
    yield from table(("Field", "Type", "Facet", "Meaning"), rows, widths="22 16 14 48")


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


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("entity-kinds", EntityKinds)
    app.add_directive("handler-matrix", HandlerMatrix)
    app.add_directive("service-types", ServiceTypes)
    app.add_directive("manage-commands", ManageCommands)
    app.add_directive("field-types", FieldTypes)
    return {"version": "1", "parallel_read_safe": True}
