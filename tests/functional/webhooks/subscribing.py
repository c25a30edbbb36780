# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and changes that the tests of the outlet write, as the API and an engine would."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import told
from watcher_sync.extensions.webhooks.rows import Progress, SubscriptionRow, next_revision, shard_of
from watcher_sync.extensions.webhooks.secrets import ActiveSecret, SecretBox
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.model.changes import Upsert
from watcher_sync.model.model import Model
from watcher_sync.storage.writing.store import Store

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def subscription(number: int, url: str, *, box: SecretBox | None = None, **fields: Any) -> SubscriptionRow:
    """A subscription to the instance of this number."""
    given: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "instance_kind": "instance",
        "instance_id": f"i{number}",
        "name": "s",
        "project_id": "p",
        "user_id": None,
        "sees_admin_only": False,
        "callback_url": url,
        "min_notify_interval": 0.0,
        "secrets": box.seal([ActiveSecret(SECRET)]) if box else None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return SubscriptionRow(**{**given, **fields})


def subscribe(store: Store, number: int, url: str, **fields: Any) -> SubscriptionRow:
    """Store a subscription, as the API does."""
    return Subscriptions(store.database, store.tables).create(subscription(number, url, **fields))


def subscribe_all(
    store: Store, urls: Sequence[str], instance_ids: Sequence[str] = (), **fields: Any
) -> list[SubscriptionRow]:
    """Store subscriptions in one transaction, one for each URL: to these instances first, then to those with a number.

    :param instance_ids: at most as many as there are URLs.
    """

    def one(number: int, url: str) -> SubscriptionRow:
        chosen = {"instance_id": instance_ids[number]} if number < len(instance_ids) else {}
        return subscription(number, url, **chosen, **fields)

    tables = store.tables
    with store.database.begin() as connection:
        revision = next_revision(connection, tables)
        head = connection.execute(sa.select(tables.journal_head.c.seq)).scalar_one()
        made = [
            msgspec.structs.replace(each, shard=shard_of(each.id), revision=revision, start_after=head)
            for each in itertools.starmap(one, enumerate(urls))
        ]
        rows = [msgspec.structs.asdict(each) | {"owner": each.project_id or ""} for each in made]
        connection.execute(sa.insert(tables.subscriptions), rows)
        progress = [Progress(subscription_id=each.id, sequence=head) for each in made]
        connection.execute(sa.insert(tables.subscription_progress), [msgspec.structs.asdict(each) for each in progress])
    return made


class Instances:
    """Changes of instances, each with a new value, committed as an engine commits them."""

    def __init__(self, store: Store) -> None:
        self._cycle = cycle_on(store)
        self._events = itertools.count(1)
        self.committed: dict[str, str] = {}
        """Instance -> the last status that was committed."""

    @property
    def model(self) -> Model:
        """The replica of the writer."""
        return self._cycle.model

    def follow(self) -> None:
        """Read what others committed.

        :raises HistoryChanged: the database went back in time.
        """
        self._cycle.follow()

    def write(self, numbers: Iterable[int], status: str | None = None) -> int:
        """Change these instances in one commit. Return the journal's head."""
        events = []
        for number in numbers:
            event = next(self._events)
            name, value = f"i{number}", status or f"status-{event}"
            self.committed[name] = value
            facets = {"state": {"state": value}, "details": {"name": f"n{number}", "project_id": "p"}}
            events.append(told(event, Upsert("instance", name, f"{event:012d}", facets)))
        commit(self._cycle, *events)
        return int(self._cycle.model.generation)
