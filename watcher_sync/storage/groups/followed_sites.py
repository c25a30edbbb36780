# SPDX-License-Identifier: Apache-2.0
"""Which sites are followed, by which sources: only these sources write the entities of a site.

The engines write the scopes of their sources into ``source_status``. So every process knows the sites, an API without
sources in its configuration and an engine that owns other ones. A site is followed until its removed source is
forgotten, because its entities remain until then.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from watcher_sync.model.scopes import AFTER_SITE, NO_SITES, EntityScope, require_own
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.schema.tables import Tables

_decode = msgspec.json.Decoder(list[EntityScope]).decode


class FollowedSites:
    """The sites of one database. For any thread."""

    def __init__(self, database: sa.Engine, tables: Tables) -> None:
        self.sources: Mapping[str, frozenset[str]] = NO_SITES
        """Site -> the sources that follow it, as of the last :meth:`refresh`."""
        self._database = database
        self._table = tables.source_status

    @retried
    def refresh(self) -> None:
        """Read the sites.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table.c
        query = sa.select(t.source, t.scopes).where(t.scopes.is_not(None))
        with translated(), self._database.connect() as connection:
            rows = connection.execute(query).all()
        found: dict[str, frozenset[str]] = {}
        for source, scopes in rows:
            for site in [scope.site for scope in _decode(scopes) if scope.site]:
                found[site] = found.get(site, frozenset()) | {source}
        self.sources = found

    def require_own(self, source: str, kind: str, entity_id: str) -> None:
        """Require that a source may write an entity now.

        :raises FollowedEntity: the entity is that of a site that others follow.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        if AFTER_SITE in entity_id:
            self.refresh()
            require_own(self.sources, source, kind, entity_id)
