# SPDX-License-Identifier: Apache-2.0
"""``watch topic create``, ``list``, ``show``, ``delete``.

A topic is read from a file with JSON or YAML, or made of options.
"""

from __future__ import annotations

import argparse
from typing import Any

from watcher_sync.client.commands.arguments import WrongUsage, argument
from watcher_sync.client.commands.base import Noun, ShowCommand
from watcher_sync.client.commands.files import object_of_file
from watcher_sync.client.models import WatchTopic

_PARTS = ("group", "kind", "name", "scope", "type")
_FILTER_HELP = (
    "a filter: group=G,kind=K and optionally name=N, scope=KIND/NAME, type=TYPE+TYPE of created, updated and deleted; "
    "what is left out matches everything. May be repeated"
)


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


WATCH_TOPIC = Noun(
    fields=("name", "title", "description", "filters", "id", "self_link", "created_at"),
    table=("name", "title", "filters", "created_at"),
    key="name",
    marker="after this name",
    every=lambda client, _: map(_shown, client.watch_topics()),
    one=lambda client, args: _shown(client.watch_topic(args.name)),
    delete=lambda client, _, name: client.delete_watch_topic(name),
    absent="there is no watch topic of the name",
)

WatchTopicList = WATCH_TOPIC.list_command("List the watch topics.")
WatchTopicShow = WATCH_TOPIC.show_command(
    "Show a watch topic.", argument("name", metavar="NAME", help="name of the topic")
)
WatchTopicDelete = WATCH_TOPIC.delete_command(
    "Delete watch topics.", argument("chosen", nargs="+", metavar="NAME", help="names of the topics")
)


class WatchTopicCreate(ShowCommand):
    """Create a watch topic."""

    arguments = (
        argument("name", nargs="?", metavar="NAME", help="name of the topic; by default that of the file"),
        argument("--file", metavar="FILE", help="file with the topic as JSON or YAML; - is stdin"),
        argument("--filter", action="append", dest="filters", metavar="FILTER", help=_FILTER_HELP),
        argument("--title", metavar="TEXT", help="title of the topic"),
        argument("--description", metavar="TEXT", help="description of the topic"),
    )

    def _document(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return _shown(self.client.create_watch_topic(_values(parsed_args)))


def _values(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """:raises WrongUsage: what the options say is no topic."""
    if (parsed_args.file is None) == (parsed_args.filters is None):
        raise WrongUsage("a topic needs either --file or at least one --filter")
    values: dict[str, Any] = {} if parsed_args.file is None else object_of_file(parsed_args.file)
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
