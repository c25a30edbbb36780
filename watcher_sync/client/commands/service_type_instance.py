# SPDX-License-Identifier: Apache-2.0
"""``service type instance create``, ``set``, ``unset``, ``delete``, ``list``, ``show``: instances of a service type.

The commands write what a provider is asked for. The events of the provider write the status.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from watcher_sync.client.commands.base import Command, ShowCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.entity import EntitiesCommand, EntityList, add_fields
from watcher_sync.client.commands.errors import PartialFailure, WrongUsage
from watcher_sync.client.commands.vnf import etag
from watcher_sync.client.errors import NotFound
from watcher_sync.client.models import Stored

_KIND = "service_type_instance"
_WRITTEN = ("service_type", "instance_name", "spec", "provider_name")
"""The fields of a request; the options are ``--type``, ``--name``, ``--spec`` and ``--provider``."""


class ServiceTypeInstanceList(EntityList):
    """List the instances of service types."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = EntitiesCommand.get_parser(self, prog_name)
        add_fields(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        return self.listed(parsed_args, _KIND)


class ServiceTypeInstanceShow(ShowCommand):
    """Show an instance of a service type, with the ETag for --if-match."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other instance has it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _shown(self.client.find_stored(_KIND, parsed_args.id))


class ServiceTypeInstanceCreate(ShowCommand):
    """Create an instance of a service type."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service_type", metavar="TYPE", help="the service type, such as vm or container")
        parser.add_argument("--id", metavar="ID", help="its id (default: a new uuid)")
        _add_values(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        values = {"service_type": parsed_args.service_type, **_values(parsed_args)}
        if parsed_args.id is not None:
            values["id"] = parsed_args.id
        return _shown(self.client.create_service_type_instance(values))


class ServiceTypeInstanceSet(ShowCommand):
    """Change an instance of a service type. What no option names stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="ID", help="its id")
        parser.add_argument("--type", dest="service_type", metavar="TYPE", help="the service type")
        _add_values(parser)
        _add_if_match(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        given = _values(parsed_args)
        if parsed_args.service_type is not None:
            given["service_type"] = parsed_args.service_type
        if not given:
            raise WrongUsage("name at least one property to change")
        return _replaced(self, parsed_args, given)


class ServiceTypeInstanceUnset(ShowCommand):
    """Remove properties of an instance of a service type."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="ID", help="its id")
        parser.add_argument("--name", dest="instance_name", action="store_true", help="the name")
        parser.add_argument("--spec", action="store_true", help="the specification")
        parser.add_argument("--provider", dest="provider_name", action="store_true", help="the provider")
        _add_if_match(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        removed = {name: None for name in ("instance_name", "spec", "provider_name") if getattr(parsed_args, name)}
        if not removed:
            raise WrongUsage("name at least one property to remove")
        return _replaced(self, parsed_args, removed)


class ServiceTypeInstanceDelete(Command):
    """Delete instances of service types."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("ids", nargs="+", metavar="ID", help="ids of the instances")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes them, even if one of them does not exist."""
        missing = []
        for entity_id in dict.fromkeys(parsed_args.ids):
            try:
                self.client.delete_service_type_instance(entity_id)
            except NotFound:
                missing.append(entity_id)
        if missing:
            raise PartialFailure(f"there is no {_KIND} with the id {', '.join(missing)}")


def _add_values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", dest="instance_name", metavar="NAME", help="its name")
    parser.add_argument("--spec", type=_spec, metavar="JSON", help="what is asked for: a JSON object, or @FILE with it")
    parser.add_argument("--provider", dest="provider_name", metavar="NAME", help="the provider that runs it")
    parser.add_argument(
        "--project", dest="project_id", metavar="ID", help="the project that owns it, for administrators"
    )


def _add_if_match(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--if-match", type=etag, metavar="ETAG", help="refuse, unless the instance has this ETag")


def _values(parsed_args: argparse.Namespace) -> dict[str, Any]:
    names = ("instance_name", "spec", "provider_name", "project_id")
    return {name: value for name in names if (value := getattr(parsed_args, name)) is not None}


def _replaced(
    command: Command, parsed_args: argparse.Namespace, given: Mapping[str, Any]
) -> tuple[Sequence[str], tuple[Any, ...]]:
    """Writes the instance with these values changed, and returns the names and the values."""
    stored = command.client.stored(_KIND, parsed_args.id)
    values = {name: stored.entity.get(name) for name in _WRITTEN}
    if_match = parsed_args.if_match or stored.etag
    return _shown(command.client.replace_service_type_instance(parsed_args.id, {**values, **given}, if_match=if_match))


def _shown(stored: Stored) -> tuple[Sequence[str], tuple[Any, ...]]:
    values = {**stored.entity, "etag": stored.etag}
    return tuple(values), row(values, values)


def _spec(text: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except (OSError, ValueError, RecursionError) as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value
