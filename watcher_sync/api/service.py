# SPDX-License-Identifier: Apache-2.0
"""The database, the kinds and the options that all resources of a process share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg

from watcher_sync.api.http.problems import Problem
from watcher_sync.conf.namespaces import namespace_projects
from watcher_sync.exceptions import RowRefused
from watcher_sync.model.kinds import Kinds
from watcher_sync.read.past.past_models import PastModels
from watcher_sync.read.reading import read_namespace_owner
from watcher_sync.read.removed_entities import RemovedEntities
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.database.time_limits import wait_longer
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.store import Store


class Service:
    """The database and the configuration of one worker process. Used by all threads."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store) -> None:
        """:raises ConfigError: when an option has an unusable value."""
        self.conf = conf
        self.store = store
        self.kinds: Kinds = store.kinds
        self.tables: Tables = store.tables
        self.max_limit: int = conf.api.max_limit
        self.past = PastModels(store.tables, store.kinds, conf.api.max_past_mib * 1_048_576)
        """The model as it was, for requests with ``as_of``."""
        self.removed = RemovedEntities(store.database)
        """The entities of removed sources."""
        self._namespace_projects = namespace_projects(conf)

    @contextlib.contextmanager
    def reading(self, *, short: bool = False) -> Iterator[sa.Connection]:
        """Opens a connection that reads one consistent state of the database.

        :param short: whether the process computes nothing between its statements. Else they may be minutes apart.
        :raises DatabaseUnavailable: when the database does not answer.
        :raises Problem: 400 when the database cannot compare a value of the request.
        """
        try:
            with translated(), self.store.database.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                if not short:
                    wait_longer(connection)
                yield connection
        except RowRefused as exc:
            raise Problem(400, f"The database refuses a value of the request: {exc}") from None

    def namespace_owner(self, cluster: str, namespace: str) -> str | None:
        """The project that a namespace of a cluster is mapped to; None: none.

        The configuration of this process decides. If it has no mapping, the tables have that of the engine, as far as
        the namespace has objects.
        """
        owner = self._namespace_projects.get((cluster, namespace))
        if owner is not None:
            return owner
        with self.reading() as connection:
            return read_namespace_owner(connection, self.tables, cluster, namespace)
