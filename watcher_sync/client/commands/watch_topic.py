# SPDX-License-Identifier: Apache-2.0
"""``watch topic create``, ``list``, ``show``, ``delete``.

A topic is read from a file with JSON or YAML, or made of options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import yaml

from watcher_sync.client.commands.base import Command, ListCommand, ShowCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.commands.errors import PartialFailure, WrongUsage
from watcher_sync.client.errors import NotFound
from watcher_sync.client.models import WatchTopic

_PARTS = ("group", "kind", "name", "scope", "type")
_LISTED = ("name", "title", "filters", "created_at")
_NAMES = ("name", "title", "description", "filters", "id", "self_link", "created_at")
_FILTER_HELP = (
    "a filter: group=G,kind=K and optionally name=N, scope=KIND/NAME, type=TYPE+TYPE of created, updated and deleted; "
    "what is left out matches everything. May be repeated"
)


class WatchTopicCreate(ShowCommand):
    """Create a watch topic."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", nargs="?", metavar="NAME", help="name of the topic; by default that of the file")
        parser.add_argument("--file", metavar="FILE", help="file with the topic as JSON or YAML; - is stdin")
        parser.add_argument("--filter", action="append", dest="filters", metavar="FILTER", help=_FILTER_HELP)
        parser.add_argument("--title", metavar="TEXT", help="title of the topic")
        parser.add_argument("--description", metavar="TEXT", help="description of the topic")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _NAMES, row(_shown(self.client.create_watch_topic(_values(parsed_args))), _NAMES)


class WatchTopicList(ListCommand):
    """List the watch topics."""

    marker_help = "where to begin: after this name"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = _LISTED if parsed_args.formatter == "table" else _NAMES
        topics = Choice(parsed_args, _NAMES, "name").of_all(_shown(topic) for topic in self.client.watch_topics())
        return names, [row(topic, names) for topic in topics]


class WatchTopicShow(ShowCommand):
    """Show a watch topic."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME", help="name of the topic")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _NAMES, row(_shown(self.client.watch_topic(parsed_args.name)), _NAMES)


class WatchTopicDelete(Command):
    """Delete watch topics."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("names", nargs="+", metavar="NAME", help="names of the topics")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes them, even if one of them does not exist."""
        missing = []
        for name in dict.fromkeys(parsed_args.names):
            try:
                self.client.delete_watch_topic(name)
            except NotFound:
                missing.append(name)
        if missing:
            raise PartialFailure(f"there is no watch topic of the name {', '.join(missing)}")


def _shown(topic: WatchTopic) -> dict[str, Any]:
    spec = topic.spec
    return {
        "name": topic.name,
        "title": topic.title,
        "description": spec.get("description", ""),
        "filters": spec.get("filters", []),
        "id": topic.metadata.get("id"),
        "self_link": topic.metadata.get("selfLink"),
        "created_at": topic.metadata.get("audit", {}).get("createTimestamp"),
    }


def _values(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """:raises WrongUsage: what the options say is no topic."""
    if (parsed_args.file is None) == (parsed_args.filters is None):
        raise WrongUsage("a topic needs either --file or at least one --filter")
    values: dict[str, Any] = {} if parsed_args.file is None else _read(parsed_args.file)
    if parsed_args.filters is not None:
        values["spec"] = {"filters": [parsed_filter(text) for text in parsed_args.filters]}
    if parsed_args.name is not None:
        values["name"] = parsed_args.name
    if parsed_args.title is not None:
        values["title"] = parsed_args.title
    if parsed_args.description is not None and isinstance(values.get("spec"), dict):
        values["spec"]["description"] = parsed_args.description
    if "name" not in values:
        raise WrongUsage("a topic needs a name")
    return values


def _read(name: str) -> dict[str, Any]:
    """:raises WrongUsage: the file cannot be read, or has no object."""
    try:
        if name == "-":
            text = sys.stdin.read()
        else:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        document = yaml.safe_load(text)  # JSON is YAML
        msgspec.json.encode(document)
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as exc:
        raise WrongUsage(f"{name}: {exc}") from None
    if not isinstance(document, dict):
        raise WrongUsage(f"{name}: it has no watch topic")
    return document


def parsed_filter(text: str) -> dict[str, Any]:
    """A filter of an option, as the API takes it.

    :raises WrongUsage: it has another form.
    """
    values: dict[str, Any] = {"group": "*", "kind": "*"}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or name not in _PARTS:
            raise WrongUsage(f"--filter {text}: {part!r} is none of {', '.join(f'{each}=' for each in _PARTS)}")
        if name == "scope":
            kind, slash, scope_name = value.partition("/")
            values[name] = {"kind": kind, "name": scope_name if slash else "*"}
        else:
            values[name] = value.split("+") if name == "type" else value
    return values
