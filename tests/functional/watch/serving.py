# SPDX-License-Identifier: Apache-2.0
"""A watch server in a thread of the test's process, with tokens that the test makes."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tests.functional.watch.clients import SELF_LINK
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.watch.authentication import AuthenticationUnavailable, Caller
from watcher_sync.extensions.watch.bearer_tokens import InvalidToken
from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.model.topics import WatchTopic, parse
from watcher_sync.extensions.watch.settings import WatchSettings
from watcher_sync.extensions.watch.stored import RowValues, first_sequence
from watcher_sync.extensions.watch.tls import Certificates
from watcher_sync.extensions.watch.wire.topic_links import parts_of
from watcher_sync.extensions.watch.worker import WatchStore, WatchWorker
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

EVERYTHING = {"group": "*", "kind": "*"}
HIDDEN = {name: kind.admin_only for name, kind in builtin_kinds().items() if kind.admin_only}


def admin(**fields: Any) -> Caller:
    return caller(**{"user_id": "admin", "project_id": None, "reader": Reader()} | fields)


def reader_of(project_id: str, **fields: Any) -> Caller:
    """A reader of one project, who does not see hosts."""
    return caller(
        **{"user_id": f"u-{project_id}", "project_id": project_id, "reader": Reader(project_id, HIDDEN)} | fields
    )


def caller(**fields: Any) -> Caller:
    return Caller(**{"may_subscribe": True, "may_watch": lambda _: True, "expires_at": None} | fields)


class Tokens:
    """The callers of tokens. A test adds and removes them."""

    def __init__(self, **callers: Caller) -> None:
        self.callers = callers
        self.is_available = True
        self.checked: list[str] = []
        self.slow: frozenset[str] = frozenset()
        """The checks of these tokens do not return before :attr:`answers` is set."""
        self.unavailable: frozenset[str] = frozenset()
        """The identity service cannot check these tokens."""
        self.lives: dict[str, float] = {}
        """A token -> for how many seconds it is valid after a check of it. A slow client cannot come too late."""
        self.expiries: dict[str, float] = {}
        """When such a token expires, after its last check."""
        self.answers = threading.Event()

    def authenticate(self, token: str) -> Caller:
        self.checked.append(token)
        assert token not in self.slow or self.answers.wait(deadline(60))
        if not self.is_available or token in self.unavailable:
            raise AuthenticationUnavailable
        if (life := self.lives.get(token)) is not None:
            self.expiries[token] = time.time() + life
            return admin(expires_at=self.expiries[token])
        found = self.callers.get(token)
        if found is None or (found.expires_at is not None and found.expires_at < time.time() - 30):
            raise InvalidToken("the token is not valid")
        return found


class Topics:
    """The topics of a test. It adds and removes them."""

    def __init__(self) -> None:
        self.topics: dict[str, WatchTopic] = {}
        self.served: dict[tuple[str, str], int] = {}
        """(user id, topic id) -> the last sequence that REST served."""
        self.put(SELF_LINK)

    def put(self, self_link: str, *each: dict[str, Any]) -> WatchTopic:
        parts = parts_of(self_link)
        assert parts is not None
        document = {"name": parts[1], "spec": {"filters": list(each or (EVERYTHING,))}}
        self.topics[self_link] = parse(document, str(uuid.uuid4()), version=parts[0])
        return self.topics[self_link]

    def find(self, self_link: str, caller: Caller) -> WatchTopic | None:
        topic = self.topics.get(self_link)
        return None if topic is None or not caller.may_watch(topic.project_id) else topic

    def last_served(self, topic: WatchTopic, caller: Caller) -> int | None:
        return self.served.get((caller.user_id, topic.id))

    def existing(self, ids: Iterable[str]) -> frozenset[str]:
        return frozenset(ids) & {topic.id for topic in self.topics.values()}


class Serving:
    """The server, and what the test changes around it."""

    def __init__(
        self,
        store: Store,
        tokens: Tokens,
        settings: WatchSettings,
        certificates: Certificates | None = None,
        topics: Any = None,
    ) -> None:
        self.store = store
        self._settings = settings
        self.tokens = tokens
        self.topics = topics or Topics()
        self._reader = JournalReader(store.database, store.tables, interval=0.02)
        describer = Describer(store.kinds)
        stored = WatchStore(
            self.topics, self.topics.existing, RowValues(store, describer).read, lambda: first_sequence(store)
        )
        self.worker = WatchWorker(self._reader, describer, stored, tokens, settings, certificates)

    def start(self) -> None:
        self.begin()
        assert self.worker.wait_until_serving(60)
        wait_until(lambda: self.worker.stats.position >= 0, what="the position of the hub")

    def begin(self) -> None:
        self._reader.start()
        self.worker.start()

    def settings_at(self, port: int) -> WatchSettings:
        return msgspec.structs.replace(self._settings, port=port)

    @property
    def port(self) -> int:
        return self.worker.port

    def stop_journal(self) -> None:
        self._reader.stop()

    def stop(self) -> None:
        self.worker.stop(deadline(10))
        self._reader.stop()
        wait_until(lambda: not self.worker.is_alive(), what="the end of the server")


@contextlib.contextmanager
def serving(
    store: Store,
    tokens: Tokens | None = None,
    certificates: Certificates | None = None,
    topics: Any = None,
    **settings: Any,
) -> Iterator[Serving]:
    """A server that serves.

    :param topics: the stored topics; None: those that the test makes.
    """
    given = {"port": 0, "ping_interval": 600.0, "topic_poll_interval": 0.1, "token_retry_interval": 0.1}
    made = Serving(store, tokens or Tokens(admin=admin()), WatchSettings(**{**given, **settings}), certificates, topics)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def joined(site: Serving, count: int) -> None:
    """Wait until so many streams have a topic."""
    wait_until(lambda: site.worker.stats.subscribed == count, what=f"{count} streams")
