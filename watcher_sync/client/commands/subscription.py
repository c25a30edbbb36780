# SPDX-License-Identifier: Apache-2.0
"""``subscription list``, ``show``, ``create``, ``set``, ``unset``, ``delete``, ``test``, ``replay``, ``delivery list``.

A signing secret is read from a file, or made by ``--generate-secret`` and printed once. It is never on the command
line, which every user of a machine can read.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import (
    Command,
    ListCommand,
    ShowCommand,
    add_all_projects,
    seq,
)
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.commands.errors import PartialFailure, WrongUsage
from watcher_sync.client.commands.operation_secret import secret_of_file
from watcher_sync.client.errors import NotFound
from watcher_sync.client.models import Delivery, Subscription
from watcher_sync.client.subscriptions import new_secret

_NAMES = tuple(field.name for field in msgspec.structs.fields(Subscription))
_DELIVERY_NAMES = tuple(field.name for field in msgspec.structs.fields(Delivery))
_LISTED = ("instance_id", "name", "state", "reason", "last_notify_status", "lag", "next_attempt_time")
_WRITTEN = (
    "callback-url", "min-notify-interval", "metadata", "payload", "format",
    "kinds", "ids", "fields", "labels",
)  # fmt: skip
"""The members of a request that an answer has, too."""

_SEQUENCES = ("previous_sequence", "sequence")

_FILTERS = ("kinds", "ids", "fields", "labels")


class SubscriptionList(ListCommand):
    """List subscriptions: of all instances, or of one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="ID", help="only those of this instance")
        parser.add_argument("--state", choices=["active", "suspended", "gone"], help="only those in this state")
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = _LISTED if parsed_args.formatter == "table" else _NAMES
        choice = Choice(parsed_args, _NAMES, "id")
        if parsed_args.instance is None:
            found = choice.of_pages(
                functools.partial(
                    self.client.subscriptions, state=parsed_args.state, all_projects=parsed_args.all_projects
                )
            )
        elif parsed_args.all_projects:
            raise WrongUsage("--instance lists the subscriptions of the instance, without other projects")
        else:
            of_instance = self.client.instance_subscriptions(parsed_args.instance)
            found = choice.of_all(one for one in of_instance if parsed_args.state in (None, one.state))
        return names, [row(one, names) for one in found]


class SubscriptionShow(ShowCommand):
    """Show a subscription."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _shown(self.client.subscription(parsed_args.instance, parsed_args.name))


class SubscriptionCreate(ShowCommand):
    """Subscribe a callback to the changes of an instance."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        parser.add_argument("callback_url", metavar="URL", help="where the deliveries are posted")
        _add_values(parser)
        _add_secret(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        secret = _secret(parsed_args)
        values = {"name": parsed_args.name, **_values(parsed_args), **secret}
        made = self.client.create_subscription(parsed_args.instance, values)
        return _shown(made, secret if parsed_args.generate_secret else {})


class SubscriptionSet(ShowCommand):
    """Change a subscription, and make it active again. What no option names stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        parser.add_argument("--callback-url", metavar="URL", help="where the deliveries are posted")
        _add_values(parser)
        parser.add_argument("--no-filter", action="store_true", help="remove the filters that no option sets")
        _add_secret(parser).add_argument("--no-secret", action="store_true", help="sign no longer")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        present = msgspec.to_builtins(self.client.subscription(parsed_args.instance, parsed_args.name))
        values = {name: present[name] for name in _WRITTEN if present.get(name) is not None}
        if parsed_args.no_filter:
            values = {name: value for name, value in values.items() if name not in _FILTERS}
        secret = {"secret": ""} if parsed_args.no_secret else _secret(parsed_args)
        values |= {**_values(parsed_args), **secret}
        made = self.client.replace_subscription(parsed_args.instance, parsed_args.name, values)
        return _shown(made, secret if parsed_args.generate_secret else {})


class SubscriptionUnset(ShowCommand):
    """Remove properties of a subscription, and make it active again. What no option names stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        for name in _FILTERS:
            singular = name.removesuffix("s")
            parser.add_argument(f"--{singular}", action="store_true", help=f"the filter by {singular}")
        parser.add_argument("--interval", action="store_true", help="the least time between deliveries")
        parser.add_argument("--metadata", action="store_true", help="what every delivery repeats")
        parser.add_argument("--secret", action="store_true", help="the signing secret")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        removed = {name for name in _FILTERS if getattr(parsed_args, name.removesuffix("s"))}
        removed |= {"min-notify-interval"} if parsed_args.interval else set()
        removed |= {"metadata"} if parsed_args.metadata else set()
        if not removed and not parsed_args.secret:
            raise WrongUsage("name at least one property to remove")
        present = msgspec.to_builtins(self.client.subscription(parsed_args.instance, parsed_args.name))
        values = {name: present[name] for name in _WRITTEN if present.get(name) is not None and name not in removed}
        secret = {"secret": ""} if parsed_args.secret else {}
        return _shown(self.client.replace_subscription(parsed_args.instance, parsed_args.name, {**values, **secret}))


class SubscriptionDelete(Command):
    """Delete subscriptions of an instance."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("instance", metavar="INSTANCE", help="id of the instance")
        parser.add_argument("names", nargs="+", metavar="NAME", help="names of the subscriptions")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes them, even if one of them does not exist."""
        missing = []
        for name in dict.fromkeys(parsed_args.names):
            try:
                self.client.delete_subscription(parsed_args.instance, name)
            except NotFound:
                missing.append(name)
        if missing:
            raise PartialFailure(f"{parsed_args.instance} has no subscription of the name {', '.join(missing)}")


class SubscriptionTest(ShowCommand):
    """Have a test message sent once. 'subscription delivery list' shows its outcome under the printed webhook id."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return ("webhook_id",), (self.client.test_subscription(parsed_args.instance, parsed_args.name),)


class SubscriptionReplay(Command):
    """Have the changes after a seq delivered again, and make the subscription active."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        parser.add_argument("--since", type=seq, required=True, metavar="SEQ", help="the changes after this seq")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Requests the replay."""
        self.client.replay_subscription(parsed_args.instance, parsed_args.name, parsed_args.since)


class SubscriptionDeliveryList(ListCommand):
    """List the deliveries of a subscription, the newest first."""

    marker_help = "where to begin: before this id"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_subscription(parser)
        parser.add_argument("--state", choices=["pending", "delivered", "dead"], help="only those in this state")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        deliveries = functools.partial(
            self.client.deliveries, parsed_args.instance, parsed_args.name, state=parsed_args.state
        )
        found = Choice(parsed_args, _DELIVERY_NAMES, "id").of_pages(deliveries)
        if parsed_args.formatter != "table":
            return _DELIVERY_NAMES, [row(one, _DELIVERY_NAMES) for one in found]
        names = (
            "id",
            "webhook_id",
            "purpose",
            "previous_sequence",
            "sequence",
            "state",
            "created_time",
            "next_attempt_time",
        )
        rows = [(*row(one, names), len(one.attempts), _last_code(one)) for one in found]
        return (*names, "attempts", "last_code"), rows


def _add_subscription(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("instance", metavar="INSTANCE", help="id of the instance")
    parser.add_argument("name", metavar="NAME", help="name of the subscription")


def _add_values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval", type=float, dest="min_notify_interval", metavar="SECONDS", help="least time between deliveries"
    )
    parser.add_argument("--metadata", type=_object, metavar="JSON", help="an object that every delivery repeats")
    parser.add_argument("--payload", choices=["status", "full"], help="the status of resources, or all of their fields")
    # Not --format, which is the option of the output.
    parser.add_argument(
        "--message-format",
        dest="message_format",
        choices=["onap", "cloudevents", "cloudevents-batch"],
        help="the form of the deliveries",
    )
    parser.add_argument("--kind", action="append", dest="kinds", metavar="KIND", help="only resources of this kind")
    parser.add_argument("--id", action="append", dest="ids", metavar="ID", help="only the resource with this id")
    parser.add_argument("--field", action="append", dest="fields", metavar="FIELD", help="only changes of this field")
    parser.add_argument(
        "--label", action="append", type=_label, dest="labels", metavar="NAME=VALUE", help="only with this label"
    )


def _add_secret(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--secret-file", metavar="FILE", help="file with the signing secret; - is stdin")
    which.add_argument("--generate-secret", action="store_true", help="make a signing secret, and print it once")
    return which


def _values(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """The members of the request that the options give."""
    given = {
        "callback-url": parsed_args.callback_url,
        "min-notify-interval": parsed_args.min_notify_interval,
        "metadata": parsed_args.metadata,
        "payload": parsed_args.payload,
        "format": parsed_args.message_format,
        "kinds": parsed_args.kinds and [kind.replace("-", "_") for kind in parsed_args.kinds],
        "ids": parsed_args.ids,
        "fields": parsed_args.fields,
        "labels": parsed_args.labels and dict(parsed_args.labels),
    }
    return {name: value for name, value in given.items() if value is not None}


def _secret(parsed_args: argparse.Namespace) -> dict[str, str]:
    """The member of the request with the secret, if an option gives one."""
    if parsed_args.generate_secret:
        return {"secret": new_secret()}
    return {"secret": secret_of_file(parsed_args.secret_file)} if parsed_args.secret_file else {}


def _shown(subscription: Subscription, more: dict[str, Any] | None = None) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    added = more or {}
    return (*_NAMES, *added), (*row(subscription, _NAMES), *added.values())


def _last_code(delivery: Delivery) -> Any:
    return delivery.attempts[-1].get("code") if delivery.attempts else None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


_object.__name__ = "JSON object"  # argparse uses the name in "invalid JSON object value"


def _label(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name, value
