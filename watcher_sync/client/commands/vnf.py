# SPDX-License-Identifier: Apache-2.0
"""``vnf list``, ``show``, ``create``, ``set``, ``unset``, ``delete``, ``sync``: network functions that run in clusters.

The commands write the registration; the engine observes what runs. No command changes anything in a cluster.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from cliff import columns

from watcher_sync.client.commands.arguments import (
    ALL_PROJECTS,
    AS_OF,
    WrongUsage,
    argument,
    etag,
    filter_options,
    removal,
    removed,
    seq,
)
from watcher_sync.client.commands.base import Command, Noun, ShowCommand
from watcher_sync.client.commands.entity import ENTITIES_MARKER, EntityListCommand, with_etag
from watcher_sync.client.commands.files import secret_of_file
from watcher_sync.client.commands.registration import (
    OPTIONAL,
    add_registration,
    aspect_text,
    changes,
    registered,
    registration,
    vdu_text,
)
from watcher_sync.client.models import Entity, Stored
from watcher_sync.client.terminal import delta_text, plain

_MAX_DIFFERENCE_LENGTH = 120
"""Characters that a difference with its values may have; a longer one is shown without values."""


class Lines(columns.FormattableColumn[Any]):
    """A list or an object: machine formats get the value, people get a line for each entry."""

    def __init__(self, value: Any, lines: Callable[[Any], Iterable[str]]) -> None:
        """:param lines: formats the value as lines for people."""
        super().__init__(value)
        self._lines = lines

    def human_readable(self) -> str:
        """Returns the lines."""
        return "\n".join(plain(line) for line in self._lines(self._value))


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

CELLS: Mapping[str, Callable[[Any], Lines]] = {
    name: functools.partial(Lines, lines=lines) for name, lines in _LINES.items()
}
"""Field -> what makes its cell."""


_KIND = "vnf_instance"

VNF = Noun(
    table=("id", "name", "project_id", "cluster", "namespace", "state", "scale_level", "observed", "updated_at"),
    brief=(
        "id", "name", "project_id", "cluster", "namespace", "vnfd_id", "flavour_id", "vnf_provider", "vnf_product_name",
        "vnf_software_version", "vnfd_version", "vdus", "aspects", "sync_after_failure", "state",
        "failed_operation", "scale_level", "nearest_level", "observed", "vdu_results", "vnfc_resource_info",
        "created_at", "registered_at", "observed_at", "etag",
    ),
    cells=CELLS,
    marker=ENTITIES_MARKER,
    one=lambda client, args: with_etag(client.find_stored(_KIND, args.id, as_of=args.as_of)),
)  # fmt: skip

VnfShow = VNF.show_command(
    "Show one VNF instance, with the ETag for --if-match.",
    argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other instance has it"),
    AS_OF,
)

ID = argument("id", metavar="ID", help="id of the VNF instance")

ENVIRONMENT: Final = "WATCHER_SYNC_OPERATION_SECRET"

SECRET = argument(
    "--secret-file",
    metavar="FILE",
    help=f"file with the secret that 'vnf operation create' printed; - is stdin (default: {ENVIRONMENT})",
)

_CONDITIONS = (
    argument(
        "--if-match", type=etag, metavar="ETAG", help="refuse, unless the instance has this ETag; vnf show prints it"
    ),
    argument("--token", type=seq, metavar="N", help="token of your own operation on the instance"),
    SECRET,
)


class VnfList(EntityListCommand):
    """List VNF instances."""

    noun = VNF
    kind = _KIND
    arguments = (ALL_PROJECTS, AS_OF, *filter_options("cluster", "name", "namespace", "project_id", "state", "vnfd_id"))


class VnfCreate(ShowCommand):
    """Register a VNF instance; the API computes its levels from its VDUs and aspects."""

    noun = VNF
    arguments = (
        add_registration,
        argument("--id", metavar="ID", help="its id, such as the id in its VNFM (default: a new uuid)"),
        argument("--replace", action="store_true", help="the id may be that of a deleted instance"),
    )

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        values = registration(parsed_args)
        if parsed_args.id is not None:
            _require_id(values, parsed_args.id, "--id")
            values["id"] = parsed_args.id
        return with_etag(self.client.register_vnf_instance(values, replace=parsed_args.replace))


class VnfSet(ShowCommand):
    """Change the registration of a VNF instance. What no option and no file names stays."""

    noun = VNF
    arguments = (ID, add_registration, *_CONDITIONS)

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
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

    noun = VNF
    arguments = (
        ID,
        *(removal(f"--{option}", name, f"the {option}") for name in OPTIONAL for option in [name.replace("_", "-")]),
        *(
            argument(
                f"--{name}", action="append", default=[], metavar="NAME",
                help=f"the {name} of this name; may be repeated",
            )
            for name in ("vdu", "aspect")
        ),
        *_CONDITIONS,
    )  # fmt: skip

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        names = removed(parsed_args, *parsed_args.vdu, *parsed_args.aspect)
        stored = self.client.stored(_KIND, parsed_args.id)
        values = {name: value for name, value in registered(stored.entity).items() if name not in names}
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

    arguments = (ID, *_CONDITIONS)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes the registration."""
        self.client.delete_vnf_instance(
            parsed_args.id, if_match=parsed_args.if_match, token=parsed_args.token, secret=_secret(parsed_args)
        )


VnfSyncNow = Noun(
    cells=CELLS,
    one=lambda client, args: msgspec.to_builtins(client.sync_vnf_instance(args.id, dry_run=args.dry_run)),
).show_command(
    "Compare a VNF instance with its cluster now, write the differences to the model, and show them.",
    ID,
    argument("--dry-run", action="store_true", help="show the differences, and write nothing"),
)


def given_secret(parsed_args: argparse.Namespace) -> str | None:
    """The secret of an operation, from the file or the environment; None if the command has none.

    :raises WrongUsage: when the file cannot be read, or has no secret.
    """
    name = parsed_args.secret_file
    return secret_of_file(name) if name is not None else os.environ.get(ENVIRONMENT) or None


def required_secret(parsed_args: argparse.Namespace) -> str:
    """The same.

    :raises WrongUsage: when there is none, too.
    """
    secret = given_secret(parsed_args)
    if secret is None:
        raise WrongUsage(f"the secret of the operation is needed: give --secret-file FILE, or set {ENVIRONMENT}")
    return secret


def _secret(parsed_args: argparse.Namespace) -> str | None:
    """The secret that belongs to ``--token``; None without a token."""
    return None if parsed_args.token is None else required_secret(parsed_args)


def _replaced(command: Command, parsed_args: argparse.Namespace, values: Mapping[str, Any], stored: Stored) -> Entity:
    """Writes the registration.

    :param stored: the instance that the change is based on.
    """
    written = command.client.replace_vnf_instance(
        parsed_args.id,
        {name: value for name, value in values.items() if name != "id"},
        if_match=parsed_args.if_match or stored.etag,
        token=parsed_args.token,
        secret=_secret(parsed_args),
    )
    return with_etag(written)


def _require_id(values: Mapping[str, Any], wanted: str, name: str) -> None:
    """:raises WrongUsage: when the file has another id."""
    if values.get("id", wanted) != wanted:
        raise WrongUsage(f"{name}: {wanted} is not the id in the file, {values['id']}")
