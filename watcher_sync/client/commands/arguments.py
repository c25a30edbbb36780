# SPDX-License-Identifier: Apache-2.0
"""The arguments of commands as values: those of several commands, the types of their values, and ``WrongUsage``."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from typing import Any, Final

from watcher_sync.client.errors import ClientError
from watcher_sync.client.filters import BadFilter, parse_filter
from watcher_sync.client.vnf_instances import EXISTING

Argument = Callable[[Any], object]
"""Adds an argument to a parser of argparse, or to a group of one."""


class WrongUsage(ClientError):
    """The command line is wrong in a way that argparse does not notice."""


def argument(*names: str, **settings: Any) -> Argument:
    """An argument or an option, declared as for :meth:`argparse.ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Arguments that exclude each other.

    :param required: whether the command needs one of them.
    """

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in arguments:
            each(group)

    return add


def at_least_1(text: str) -> int:
    """The type of an option: a number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


at_least_1.__name__ = "number"  # argparse uses the name in "invalid number value"


def seq(text: str) -> int:
    """The type of an option: a number of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def seq_or_time(text: str) -> int | str:
    """The type of an option: a seq, or a time as ISO 8601 in UTC. A time without an offset is local."""
    if text.lstrip("-").isdecimal():
        return seq(text)
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC).isoformat()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a seq or a time such as 2026-01-31T12:00, not {text!r}") from None


def sort_key(text: str) -> str:
    """The type of ``--sort``: a field with its direction, in the form of the API (``-FIELD`` is descending)."""
    field, colon, direction = text.partition(":")
    if not field.lstrip("-") or (colon and direction not in ("asc", "desc")):
        raise argparse.ArgumentTypeError(f"must be FIELD, FIELD:asc or FIELD:desc, not {text!r}")
    return f"-{field.lstrip('-')}" if direction == "desc" else field


def etag(text: str) -> str:
    """The type of an option: an ETag, whose quotes a shell may have removed."""
    return text if text == EXISTING or text.endswith('"') else f'"{text}"'


def _filter(text: str) -> str:
    try:
        parse_filter(text)
    except BadFilter as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("must name at least one field")
    return names


BY_ACTOR: Final = argument(
    "--actor",
    metavar="ID",
    help="changes by this actor only: a user, the source of a CloudEvent, or a field manager of Kubernetes",
)

ALL_PROJECTS: Final = argument(
    "--all-projects",
    action="store_true",
    default=None,
    help="those of all projects; an error, if the policy does not allow it (default: all that you may see)",
)
AS_OF: Final = argument(
    "--as-of",
    type=seq_or_time,
    metavar="SEQ|TIME",
    help="as it was after the change with this seq, or at this time (ISO 8601, such as 2026-01-31T12:00; without "
    "an offset it is local time)",
)
FIELDS: Final = argument(
    "--fields", type=_names, metavar="FIELD,...", help="the fields to show (default: all; a table shows some)"
)
FILTER: Final = argument(
    "--filter",
    dest="filters",
    action="append",
    type=_filter,
    default=[],
    metavar="FILTER",
    help="only entries that match: FIELD=VALUE, FIELD!=VALUE, FIELD>VALUE (also <, >=, <=), FIELD~PREFIX, 'FIELD "
    "in VALUE,...', 'FIELD not in VALUE,...', or FIELD[MEMBER]=VALUE for a label; may be repeated",
)
KIND: Final = argument("kind", metavar="KIND", help="kind of entity, such as instance or compute_node")
LIMIT: Final = argument("--limit", type=at_least_1, metavar="N", help="the maximum number of entries (default: all)")
SORT: Final = argument(
    "--sort",
    type=sort_key,
    metavar="FIELD[:asc|:desc]",
    help="sort by this field, ascending unless desc is given; --sort=-FIELD is FIELD:desc",
)


LONG: Final = argument("--long", action="store_true", help="show all fields in the table, too")


_OPTION_NAMES: Final = {
    "hypervisor_hostname": "name", "instance_name": "name", "project_id": "project", "provider_name": "provider",
    "service_type": "type",
}  # fmt: skip
"""Field -> the name of its option, if it has another one, such as that of OpenStackClient."""


def filter_options(*fields: str) -> tuple[Argument, ...]:
    """Options that filter a list by one field each, as ``--filter`` does."""
    return tuple(map(_filter_option, fields))


def _filter_option(field: str) -> Argument:
    option = _OPTION_NAMES.get(field, field.replace("_", "-"))
    value = "ID" if field.endswith("_id") else option.upper()
    return argument(
        f"--{option}",
        dest="filters",
        action="append",
        type=lambda text: _filter(f"{field}={text}"),
        default=[],
        metavar=value,
        help=f"the same as --filter {field}={value}" + ("; an id, not a name" if field.endswith("_id") else ""),
    )


def marker(text: str) -> Argument:
    """``--marker``.

    :param text: where the list then begins.
    """
    return argument("--marker", metavar="MARKER", help=f"where to begin: {text}")


def removal(option: str, name: str, text: str) -> Argument:
    """An option of ``unset``.

    :param name: the property that it removes.
    """
    return argument(option, dest="removed", action="append_const", const=name, help=text)


def removed(parsed_args: argparse.Namespace, *others: str) -> list[str]:
    """The properties that the options of ``unset`` name.

    :param others: what further options remove.
    :raises WrongUsage: when nothing is removed.
    """
    names: list[str] = parsed_args.removed or []
    if not (names or others):
        raise WrongUsage("name at least one property to remove")
    return names
