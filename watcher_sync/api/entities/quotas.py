# SPDX-License-Identifier: Apache-2.0
"""The maximum number of entities of a kind in one project (``[api] quota_*``).

The transaction that creates an entity counts the others. It holds the lock of the journal's head, so two requests at
the same time cannot both take the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from watcher_sync.api.http.problems import Problem
from watcher_sync.commit.direct import DirectCommitCycle
from watcher_sync.model.kinds import Entity, Kind

_PROJECT = "project_id"

UNLIMITED = -1


class Quotas:
    """The limits of all kinds."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        """:param limits: kind -> maximum in one project; -1: no limit."""
        self._limits = dict(limits)

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> Quotas:
        """The limits of the configuration."""
        settings = conf.api
        return cls(
            {
                "vnf_instance": settings.quota_vnf_instances,
                "service_type_instance": settings.quota_service_type_instances,
            }
        )

    def require_room(self, cycle: DirectCommitCycle, kind: Kind, old: Entity | None, values: Mapping[str, Any]) -> None:
        """Require that the project has room for an entity that the write creates, or moves into the project.

        :param cycle: the transaction of the write.
        :param old: the entity before the write; None: it does not exist.
        :param values: the fields to write.
        :raises Problem: 403 when the quota is exceeded.
        """
        limit = self._limits.get(kind.name, UNLIMITED)
        project_id = values.get(_PROJECT)
        if limit < 0 or project_id is None or (old is not None and getattr(old, _PROJECT, None) == project_id):
            return
        table = cycle.store.tables.entities[kind.name]
        query = sa.select(sa.func.count()).select_from(table).where(table.c[_PROJECT] == project_id)
        with cycle.store.connect() as connection:
            count = connection.execute(query).scalar_one()
        if count >= limit:
            raise Problem(
                403,
                f"Quota exceeded: project {project_id} has {count} {kind.plural}, and {limit} are allowed",
                quota=limit,
                used=count,
            )
