# SPDX-License-Identifier: Apache-2.0
"""``vnf list``, ``show``, ``register``, ``update``, ``delete``, ``sync``: network functions that run in clusters.

The commands write the registration; the engine observes what runs. No command changes anything in a cluster.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from cliff import columns

from watcher_sync.client.commands.base import (
    Command,
    ListCommand,
    ShowCommand,
    WrongUsage,
    add_all_projects,
    add_paging,
    cell,
    seq,
)
from watcher_sync.client.commands.operation_secret import add_secret, required_secret
from watcher_sync.client.commands.registration import add_registration, aspect_text, registration, vdu_text
from watcher_sync.client.errors import ClientError, PreconditionFailed
from watcher_sync.client.formatting import delta_text, plain
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

_MAX_DIFFERENCE_LENGTH = 120
"""Characters that a difference with its values may have; a longer one is shown without values."""


class VnfList(ListCommand):
    """List VNF instances."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        for name in _FILTERS:
            option = name.replace("_", "-")
            parser.add_argument(f"--{option}", metavar=option.upper(), help=f"only instances with this {option}")
        parser.add_argument("--sort", metavar="FIELD", help="sort by this field; --sort=-FIELD reverses the order")
        add_paging(parser, marker="where to begin: after this id, or at the next_marker of a page")
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        few = parsed_args.formatter == "table" and not parsed_args.columns
        filters = {name: value for name in _FILTERS if (value := getattr(parsed_args, name)) is not None}
        entities = self.client.entities(
            _KIND,
            filters=filters,
            sort=parsed_args.sort,
            fields=_LIST_COLUMNS if few else None,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
            all_projects=parsed_args.all_projects,
        )
        first = next(entities, None)
        if first is None:
            return _LIST_COLUMNS, ()
        names = _LIST_COLUMNS if few else tuple(first)
        return names, (_row(entity, names) for entity in itertools.chain([first], entities))


class VnfShow(ShowCommand):
    """Show one VNF instance, with the ETag for --if-match."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _shown(parsed_args, self.client.stored(_KIND, parsed_args.id))


class VnfRegister(ShowCommand):
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


class VnfUpdate(ShowCommand):
    """Replace the registration of a VNF instance. A field that is not given becomes null. Observed fields stay."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        add_registration(parser)
        _add_conditions(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        values = registration(parsed_args)
        _require_id(values, parsed_args.id, "ID")
        values.pop("id", None)
        vnf_id, if_match = parsed_args.id, parsed_args.if_match
        try:
            stored = self.client.replace_vnf_instance(
                vnf_id, values, if_match=if_match or EXISTING, token=parsed_args.token, secret=_secret(parsed_args)
            )
        except PreconditionFailed:
            if if_match:
                raise
            raise ClientError(f"{_KIND} {vnf_id} does not exist; vnf register creates it") from None
        return _shown(parsed_args, stored)


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
        return names, _row(msgspec.to_builtins(report), names)


class Lines(columns.FormattableColumn[Any]):
    """A list or an object: machine formats get the value, people get a line for each entry."""

    def __init__(self, value: Any, lines: Callable[[Any], Iterable[str]]) -> None:
        """:param lines: formats the value as lines for people."""
        super().__init__(value)
        self._lines = lines

    def human_readable(self) -> str:
        """Returns the lines."""
        return "\n".join(plain(line) for line in self._lines(self._value))


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


def _require_id(values: Mapping[str, Any], wanted: str, name: str) -> None:
    """:raises WrongUsage: when the file has another id."""
    if values.get("id", wanted) != wanted:
        raise WrongUsage(f"{name}: {wanted} is not the id in the file, {values['id']}")


def _shown(parsed_args: argparse.Namespace, stored: Stored) -> tuple[Sequence[str], tuple[Any, ...]]:
    values = {**stored.entity, "etag": stored.etag}
    few = parsed_args.formatter == "table" and not parsed_args.columns
    names = _SHOW_FIELDS if few else tuple(values)
    return names, _row(values, names)


def _row(values: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(_cell(name, values.get(name)) for name in names)


def _cell(name: str, value: Any) -> Any:
    lines = _LINES.get(name)
    return cell(value) if lines is None or value is None else Lines(value, lines)


def _numbers(value: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name}={'-' if number is None else number}" for name, number in value.items())


def _results(value: Mapping[str, Any]) -> Iterable[str]:
    for name, found in value.items():
        more = {key: seen for key, seen in found.items() if key not in ("result", "detail")}
        parts = [found["result"], found.get("detail"), more and json.dumps(more, ensure_ascii=False)]
        yield f"{name}: {', '.join(part for part in parts if part)}"


def _resources(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for vnfc in value:
        pod = (vnfc.get("computeResource") or {}).get("resourceId") or "-"
        yield f"{vnfc['vduId']}: {pod} ({vnfc['id']})"


def _differences(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for found in value:
        line = delta_text({found["field"]: (found["model_value"], found["live_value"])})
        yield line if len(line) <= _MAX_DIFFERENCE_LENGTH else f"{found['field']} differs"


def _pods(value: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    return (f"{pod['vdu']}: {pod['old'] or '-'} -> {pod['new'] or '-'} ({pod['vnfc_id']})" for pod in value)


_LINES: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "vdus": lambda value: (vdu_text(name, vdu) for name, vdu in value.items()),
    "aspects": lambda value: (aspect_text(name, aspect) for name, aspect in value.items()),
    "scale_level": _numbers,
    "nearest_level": _numbers,
    "observed": _numbers,
    "vdu_results": _results,
    "vnfc_resource_info": _resources,
    "differences": _differences,
    "pods": _pods,
}
"""Field -> its lines for people."""
