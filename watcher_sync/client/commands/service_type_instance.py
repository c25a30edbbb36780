# SPDX-License-Identifier: Apache-2.0
"""``service type instance create``, ``set``, ``unset``, ``delete``, ``list``, ``show``: instances of a service type.

The commands write what a provider is asked for. The events of the provider write the status.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watcher_sync.client.commands.arguments import (
    ALL_PROJECTS,
    AS_OF,
    FIELDS,
    WrongUsage,
    argument,
    etag,
    filter_options,
    removal,
    removed,
)
from watcher_sync.client.commands.base import Command, Noun, ShowCommand
from watcher_sync.client.commands.entity import EntityListCommand, with_etag
from watcher_sync.client.models import Entity

_KIND = "service_type_instance"
_WRITTEN = ("service_type", "instance_name", "spec", "provider_name", "agent_name")
"""The fields of a request; the options are ``--type``, ``--name``, ``--spec``, ``--provider`` and ``--agent``."""

SERVICE_TYPE_INSTANCE = Noun(
    one=lambda client, args: with_etag(client.find_stored(_KIND, args.id)),
    delete=lambda client, _, entity_id: client.delete_service_type_instance(entity_id),
    absent=f"there is no {_KIND} with the id",
)

ServiceTypeInstanceShow = SERVICE_TYPE_INSTANCE.show_command(
    "Show an instance of a service type, with the ETag for --if-match.",
    argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other instance has it"),
)
ServiceTypeInstanceDelete = SERVICE_TYPE_INSTANCE.delete_command(
    "Delete instances of service types.", argument("chosen", nargs="+", metavar="ID", help="ids of the instances")
)


class ServiceTypeInstanceList(EntityListCommand):
    """List the instances of service types."""

    kind = _KIND
    arguments = (
        ALL_PROJECTS,
        AS_OF,
        FIELDS,
        *filter_options("instance_name", "project_id", "provider_name", "service_type", "status"),
    )


def _spec(text: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except (OSError, ValueError, RecursionError) as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


_VALUES = (
    argument("--name", dest="instance_name", metavar="NAME", help="its name"),
    argument("--spec", type=_spec, metavar="JSON", help="what is asked for: a JSON object, or @FILE with it"),
    argument("--provider", dest="provider_name", metavar="NAME", help="the provider that runs it"),
    argument("--agent", dest="agent_name", metavar="NAME", help="the environment agent that it was given to"),
    argument("--project", dest="project_id", metavar="ID", help="the project that owns it, for administrators"),
)
_ID = argument("id", metavar="ID", help="its id")
_IF_MATCH = argument("--if-match", type=etag, metavar="ETAG", help="refuse, unless the instance has this ETag")


class ServiceTypeInstanceCreate(ShowCommand):
    """Create an instance of a service type."""

    arguments = (
        argument("service_type", metavar="TYPE", help="the service type, such as vm or container"),
        argument("--id", metavar="ID", help="its id (default: a new uuid)"),
        *_VALUES,
    )

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        values = _given(parsed_args, "service_type", "id")
        return with_etag(self.client.create_service_type_instance(values))


class ServiceTypeInstanceSet(ShowCommand):
    """Change an instance of a service type. What no option names stays."""

    arguments = (
        _ID, argument("--type", dest="service_type", metavar="TYPE", help="the service type"), *_VALUES, _IF_MATCH,
    )  # fmt: skip

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        given = _given(parsed_args, "service_type")
        if not given:
            raise WrongUsage("name at least one property to change")
        return _replaced(self, parsed_args, given)


class ServiceTypeInstanceUnset(ShowCommand):
    """Remove properties of an instance of a service type."""

    arguments = (
        _ID,
        removal("--name", "instance_name", "the name"),
        removal("--spec", "spec", "the specification"),
        removal("--provider", "provider_name", "the provider"),
        removal("--agent", "agent_name", "the environment agent"),
        _IF_MATCH,
    )

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        return _replaced(self, parsed_args, dict.fromkeys(removed(parsed_args)))


def _given(parsed_args: argparse.Namespace, *more: str) -> dict[str, Any]:
    names = (*more, *_WRITTEN[1:], "project_id")
    return {name: value for name in names if (value := getattr(parsed_args, name)) is not None}


def _replaced(command: Command, parsed_args: argparse.Namespace, given: Mapping[str, Any]) -> Entity:
    """Writes the instance with these values changed."""
    stored = command.client.stored(_KIND, parsed_args.id)
    values = {name: stored.entity.get(name) for name in _WRITTEN}
    if_match = parsed_args.if_match or stored.etag
    written = command.client.replace_service_type_instance(parsed_args.id, {**values, **given}, if_match=if_match)
    return with_etag(written)
