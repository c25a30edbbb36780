# SPDX-License-Identifier: Apache-2.0
"""``vnf list``, ``show``, ``create``, ``set``, ``unset``, ``delete``, ``sync``: network functions that run in clusters.

The commands write the registration; the engine observes what runs. No command changes anything in a cluster.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import Command, ShowCommand, add_as_of, seq
from watcher_sync.client.commands.entity import EntitiesCommand
from watcher_sync.client.commands.errors import WrongUsage
from watcher_sync.client.commands.operation_secret import add_secret, required_secret
from watcher_sync.client.commands.registration import OPTIONAL, add_registration, changes, registered, registration
from watcher_sync.client.commands.vnf_cells import vnf_row
from watcher_sync.client.models import Stored, SyncReport
from watcher_sync.client.vnf_instances import EXISTING

_KIND = "vnf_instance"

_FILTERS = ("cluster", "namespace", "vnfd_id", "state")

_LIST_COLUMNS = ("id", "name", "project_id", "cluster", "namespace", "state", "scale_level", "observed", "updated_at")
"""Columns of a list as a table; the other formats have all fields."""

_SHOW_FIELDS = (
    "id", "name", "project_id", "cluster", "namespace", "vnfd_id", "flavour_id", "vnf_provider", "vnf_product_name",
    "vnf_software_version", "vnfd_version", "vdus", "aspects", "state",
    "scale_level", "nearest_level", "observed", "vdu_results", "vnfc_resource_info", "created_at",
    "registered_at", "observed_at", "etag",
)  # fmt: skip
"""Fields of one instance as a table without ``-c``; otherwise all fields are available."""


class VnfList(EntitiesCommand):
    """List VNF instances."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        for name in _FILTERS:
            option = name.replace("_", "-")
            text = f"only instances with this {option}; the same as --filter {name}={option.upper()}"
            parser.add_argument(f"--{option}", metavar=option.upper(), help=text)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        few = parsed_args.formatter == "table" and not parsed_args.columns
        filters = {name: [value] for name in _FILTERS if (value := getattr(parsed_args, name)) is not None}
        entities = self.found(parsed_args, _KIND, fields=_LIST_COLUMNS if few else None, filters=filters)
        first = next(entities, None)
        if first is None:
            return _LIST_COLUMNS, ()
        names = _LIST_COLUMNS if few else tuple(first)
        return names, (vnf_row(entity, names) for entity in itertools.chain([first], entities))


class VnfShow(ShowCommand):
    """Show one VNF instance, with the ETag for --if-match."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other instance has it")
        add_as_of(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _shown(parsed_args, self.client.find_stored(_KIND, parsed_args.id, as_of=parsed_args.as_of))


class VnfCreate(ShowCommand):
    """Register a VNF instance; the API computes its levels from its VDUs and aspects."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_registration(parser)
        parser.add_argument("--id", metavar="ID", help="its id, such as the id in its VNFM (default: a new uuid)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        values = registration(parsed_args)
        if parsed_args.id is not None:
            _require_id(values, parsed_args.id, "--id")
            values["id"] = parsed_args.id
        return _shown(parsed_args, self.client.register_vnf_instance(values))


class VnfSet(ShowCommand):
    """Change the registration of a VNF instance. What no option and no file names stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        add_registration(parser)
        _add_conditions(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        given = changes(parsed_args)
        _require_id(given, parsed_args.id, "ID")
        stored = self.client.stored(_KIND, parsed_args.id)
        values = registered(stored.entity)
        if parsed_args.file is None:  # an option names one VDU or aspect, and a file all of them
            named = [name for name in ("vdus", "aspects") if name in given]
            given |= {name: {**(values.get(name) or {}), **given[name]} for name in named}
        return _replaced(self, parsed_args, {**values, **given}, stored)


class VnfUnset(ShowCommand):
    """Remove parts of the registration of a VNF instance."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        for name in OPTIONAL:
            option = name.replace("_", "-")
            parser.add_argument(f"--{option}", action="store_true", help=f"the {option}")
        for name in ("vdu", "aspect"):
            help_text = f"the {name} of this name; may be repeated"
            parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=help_text)
        _add_conditions(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        removed = [name for name in OPTIONAL if getattr(parsed_args, name)]
        if not (removed or parsed_args.vdu or parsed_args.aspect):
            raise WrongUsage("name at least one property to remove")
        stored = self.client.stored(_KIND, parsed_args.id)
        values = {name: value for name, value in registered(stored.entity).items() if name not in removed}
        for option in ("vdu", "aspect"):
            wanted, present = getattr(parsed_args, option), values.get(f"{option}s") or {}
            unknown = [name for name in wanted if name not in present]
            if unknown:
                raise WrongUsage(f"--{option}: {_KIND} {parsed_args.id} has no {option} {unknown[0]!r}")
            if wanted:
                values[f"{option}s"] = {name: value for name, value in present.items() if name not in wanted}
        return _replaced(self, parsed_args, values, stored)


class VnfDelete(Command):
    """Delete the registration of a VNF instance; its cluster is not changed."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        _add_conditions(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes the registration."""
        self.client.delete_vnf_instance(
            parsed_args.id, if_match=parsed_args.if_match, token=parsed_args.token, secret=_secret(parsed_args)
        )


class VnfSyncNow(ShowCommand):
    """Compare a VNF instance with its cluster now, write the differences to the model, and show them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        parser.add_argument("--dry-run", action="store_true", help="show the differences, and write nothing")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        report = self.client.sync_vnf_instance(parsed_args.id, dry_run=parsed_args.dry_run)
        names = tuple(field.name for field in msgspec.structs.fields(SyncReport))
        return names, vnf_row(msgspec.to_builtins(report), names)


def add_id(parser: argparse.ArgumentParser) -> None:
    """Adds the argument ID."""
    parser.add_argument("id", metavar="ID", help="id of the VNF instance")


def etag(text: str) -> str:
    """The type of an option: an ETag, whose quotes a shell may have removed."""
    return text if text == EXISTING or text.endswith('"') else f'"{text}"'


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if-match",
        type=etag,
        metavar="ETAG",
        help="refuse, unless the instance has this ETag; vnf show prints it",
    )
    parser.add_argument("--token", type=seq, metavar="N", help="token of your own operation on the instance")
    add_secret(parser)


def _secret(parsed_args: argparse.Namespace) -> str | None:
    """The secret that belongs to ``--token``; None without a token."""
    return None if parsed_args.token is None else required_secret(parsed_args)


def _replaced(
    command: Command, parsed_args: argparse.Namespace, values: Mapping[str, Any], stored: Stored
) -> tuple[Sequence[str], tuple[Any, ...]]:
    """Writes the registration, and returns the names and the values.

    :param stored: the instance that the change is based on.
    """
    written = command.client.replace_vnf_instance(
        parsed_args.id,
        {name: value for name, value in values.items() if name != "id"},
        if_match=parsed_args.if_match or stored.etag,
        token=parsed_args.token,
        secret=_secret(parsed_args),
    )
    return _shown(parsed_args, written)


def _require_id(values: Mapping[str, Any], wanted: str, name: str) -> None:
    """:raises WrongUsage: when the file has another id."""
    if values.get("id", wanted) != wanted:
        raise WrongUsage(f"{name}: {wanted} is not the id in the file, {values['id']}")


def _shown(parsed_args: argparse.Namespace, stored: Stored) -> tuple[Sequence[str], tuple[Any, ...]]:
    values = {**stored.entity, "etag": stored.etag}
    few = parsed_args.formatter == "table" and not parsed_args.columns
    names = _SHOW_FIELDS if few else tuple(values)
    return names, vnf_row(values, names)
