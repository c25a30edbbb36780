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

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import ALL_PROJECTS, WrongUsage, argument, one_of, removal, removed, seq
from watcher_sync.client.commands.base import Command, ListCommand, Noun, ShowCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.commands.files import secret_of_file
from watcher_sync.client.models import Delivery, Subscription
from watcher_sync.client.subscriptions import new_secret

_WRITTEN = (
    "callback-url", "min-notify-interval", "metadata", "payload", "format",
    "kinds", "ids", "fields", "labels",
)  # fmt: skip
"""The members of a request that an answer has, too."""

_FILTERS = ("kinds", "ids", "fields", "labels")

_INSTANCE = argument("instance", metavar="INSTANCE", help="id of the instance")
_NAME = argument("name", metavar="NAME", help="name of the subscription")

SUBSCRIPTION = Noun(
    fields=Subscription.__struct_fields__,
    table=("instance_id", "name", "state", "reason", "last_notify_status", "lag", "next_attempt_time"),
    pages=lambda client, args: functools.partial(
        client.subscriptions, state=args.state, all_projects=args.all_projects
    ),
    one=lambda client, args: client.subscription(args.instance, args.name),
    delete=lambda client, args, name: client.delete_subscription(args.instance, name),
    absent="{instance} has no subscription of the name",
)

SubscriptionShow = SUBSCRIPTION.show_command("Show a subscription.", _INSTANCE, _NAME)
SubscriptionDelete = SUBSCRIPTION.delete_command(
    "Delete subscriptions of an instance.",
    _INSTANCE,
    argument("chosen", nargs="+", metavar="NAME", help="names of the subscriptions"),
)


class SubscriptionListCommand(ListCommand):
    """List subscriptions: of all instances, or of one."""

    noun = SUBSCRIPTION
    arguments = (
        argument("--instance", metavar="ID", help="only those of this instance"),
        argument("--state", choices=["active", "suspended", "gone"], help="only those in this state"),
        ALL_PROJECTS,
    )

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        if parsed_args.instance is None:
            return super()._documents(parsed_args)
        if parsed_args.all_projects:
            raise WrongUsage("--instance lists the subscriptions of the instance, without other projects")
        choice = Choice(parsed_args, self.noun.fields, self.noun.key)
        of_instance = self.client.instance_subscriptions(parsed_args.instance)
        return list(choice.of_all(one for one in of_instance if parsed_args.state in (None, one.state)))


def _label(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name, value


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


_object.__name__ = "JSON object"  # argparse uses the name in "invalid JSON object value"

_VALUES = (
    argument(
        "--interval", type=float, dest="min_notify_interval", metavar="SECONDS", help="least time between deliveries"
    ),
    argument("--metadata", type=_object, metavar="JSON", help="an object that every delivery repeats"),
    argument("--payload", choices=["status", "full"], help="the status of resources, or all of their fields"),
    # Not --format, which is the option of the output.
    argument(
        "--message-format", choices=["onap", "cloudevents", "cloudevents-batch"], help="the form of the deliveries"
    ),
    argument("--kind", action="append", dest="kinds", metavar="KIND", help="only resources of this kind"),
    argument("--id", action="append", dest="ids", metavar="ID", help="only the resource with this id"),
    argument("--field", action="append", dest="fields", metavar="FIELD", help="only changes of this field"),
    argument("--label", action="append", type=_label, dest="labels", metavar="NAME=VALUE", help="only with this label"),
)
_SECRET = (
    argument("--secret-file", metavar="FILE", help="file with the signing secret; - is stdin"),
    argument("--generate-secret", action="store_true", help="make a signing secret, and print it once"),
)


class SubscriptionCreate(ShowCommand):
    """Subscribe a callback to the changes of an instance."""

    arguments = (
        _INSTANCE,
        _NAME,
        argument("callback_url", metavar="URL", help="where the deliveries are posted"),
        *_VALUES,
        one_of(*_SECRET),
    )

    def _document(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        secret = _secret(parsed_args)
        values = {"name": parsed_args.name, **_values(parsed_args), **secret}
        made = self.client.create_subscription(parsed_args.instance, values)
        return _with_secret(made, parsed_args, secret)


class SubscriptionSet(ShowCommand):
    """Change a subscription, and make it active again. What no option names stays."""

    arguments = (
        _INSTANCE,
        _NAME,
        argument("--callback-url", metavar="URL", help="where the deliveries are posted"),
        *_VALUES,
        argument("--no-filter", action="store_true", help="remove the filters that no option sets"),
        one_of(*_SECRET, argument("--no-secret", action="store_true", help="sign no longer")),
    )

    def _document(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        values = _present(self.client, parsed_args, without=_FILTERS if parsed_args.no_filter else ())
        secret = {"secret": ""} if parsed_args.no_secret else _secret(parsed_args)
        values |= {**_values(parsed_args), **secret}
        made = self.client.replace_subscription(parsed_args.instance, parsed_args.name, values)
        return _with_secret(made, parsed_args, secret)


class SubscriptionUnset(ShowCommand):
    """Remove properties of a subscription, and make it active again. What no option names stays."""

    arguments = (
        _INSTANCE,
        _NAME,
        *(removal(f"--{name[:-1]}", name, f"the filter by {name[:-1]}") for name in _FILTERS),
        removal("--interval", "min-notify-interval", "the least time between deliveries"),
        removal("--metadata", "metadata", "what every delivery repeats"),
        removal("--secret", "secret", "the signing secret"),
    )

    def _document(self, parsed_args: argparse.Namespace) -> Subscription:
        names = removed(parsed_args)
        values = _present(self.client, parsed_args, without=names)
        secret = {"secret": ""} if "secret" in names else {}
        return self.client.replace_subscription(parsed_args.instance, parsed_args.name, {**values, **secret})


class SubscriptionTestCommand(ShowCommand):
    """Have a test message sent once. 'subscription delivery list' shows its outcome under the printed webhook id."""

    arguments = (_INSTANCE, _NAME)

    def _document(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return {"webhook_id": self.client.test_subscription(parsed_args.instance, parsed_args.name)}


class SubscriptionReplayCommand(Command):
    """Have the changes after a seq delivered again, and make the subscription active."""

    arguments = (
        _INSTANCE,
        _NAME,
        argument("--since", type=seq, required=True, metavar="SEQ", help="the changes after this seq"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Requests the replay."""
        self.client.replay_subscription(parsed_args.instance, parsed_args.name, parsed_args.since)


class SubscriptionDeliveryList(ListCommand):
    """List the deliveries of a subscription, the newest first."""

    noun = Noun(
        fields=Delivery.__struct_fields__,
        table=(
            "id", "webhook_id", "purpose", "previous_sequence", "sequence", "state", "created_time",
            "next_attempt_time", "attempts", "last_code",
        ),
        marker="before this id",
        pages=lambda client, args: functools.partial(client.deliveries, args.instance, args.name, state=args.state),
    )  # fmt: skip
    arguments = (
        _INSTANCE,
        _NAME,
        argument("--state", choices=["pending", "delivered", "dead"], help="only those in this state"),
    )

    def _row(self, document: Delivery, names: Sequence[str]) -> tuple[Any, ...]:
        if names != self.noun.table:
            return super()._row(document, names)
        attempts = document.attempts
        counted = {"attempts": len(attempts), "last_code": attempts[-1].get("code") if attempts else None}
        return row({**msgspec.structs.asdict(document), **counted}, names, {})


def _present(client: Client, parsed_args: argparse.Namespace, without: Sequence[str]) -> dict[str, Any]:
    """The members of a request that leaves the subscription as it is, without some of them."""
    present = msgspec.to_builtins(client.subscription(parsed_args.instance, parsed_args.name))
    return {name: present[name] for name in _WRITTEN if name not in without and present.get(name) is not None}


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


def _with_secret(made: Subscription, parsed_args: argparse.Namespace, secret: dict[str, str]) -> dict[str, Any]:
    return {**msgspec.structs.asdict(made), **(secret if parsed_args.generate_secret else {})}
