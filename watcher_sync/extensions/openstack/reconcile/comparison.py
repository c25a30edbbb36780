# SPDX-License-Identifier: Apache-2.0
"""The state of the model that a comparison uses, and the result of the comparison.

A comparison takes a state of the model before each request, and compares the answer with that state. The state's
journal seq goes with each difference: the writer leaves alone what was written after it.
"""

from __future__ import annotations

import datetime
from typing import Final

import msgspec

from watcher_sync.extensions.openstack.reconcile.live import Facets, differing
from watcher_sync.extensions.openstack.reconcile.writer import NovaDivergence
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Snapshot

INSTANCE: Final = "instance"
NODE: Final = "compute_node"
AGGREGATE: Final = "aggregate"


class Base(msgspec.Struct, frozen=True):
    """The state of the model before a request."""

    view: Snapshot
    listed_at: datetime.datetime
    """When it was taken, aware UTC."""

    def diverging(self, kind: str, entity_id: str, facets: Facets) -> NovaDivergence | None:
        """Return the difference between an entity and what Nova says of it; None if there is none."""
        model = self.view.get(kind, entity_id)
        changed = facets if model is None else differing(facets, model)
        return self._divergence(kind, entity_id, model, changed) if changed else None

    def gone(self, entity: Entity, kind: str) -> NovaDivergence:
        """Return the difference of an entity that Nova does not have."""
        return msgspec.structs.replace(self._divergence(kind, entity.id, entity, {}), is_gone=True)

    def _divergence(self, kind: str, entity_id: str, model: Entity | None, facets: Facets) -> NovaDivergence:
        return NovaDivergence(
            kind=kind,
            id=entity_id,
            model=model,
            facets=facets,
            generation=self.view.generation,
            listed_at=self.listed_at,
        )


class NovaComparison(msgspec.Struct, kw_only=True):
    """Where the model differs from Nova."""

    found: list[NovaDivergence] = []
    failures: dict[str, str] = {}
    """Resource -> why it could not be listed."""
    unknown: dict[str, str] = {}
    """What Nova does not show -> why, such as the rule that hides it from the account."""
    complete: set[str] = set()
    """Kinds whose entities were all compared."""
    sizes: dict[str, int] = {}
    """kind -> entities of the model that were compared."""
    states: dict[str, bool] = {}
    """host -> whether Nova says that its compute service is up; without those that are forced down."""
    states_at: datetime.datetime | None = None
    """When the services were requested."""
    looked_at: set[str] = set()
    """Ids of the instances that were compared."""

    refused: dict[str, int] = {}
    """kind -> deletions that the delete guard refuses."""
