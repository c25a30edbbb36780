# SPDX-License-Identifier: Apache-2.0
"""The methods of the client for engines, sources and stored events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watcher_sync.client import models
from watcher_sync.client.paging import Reading, converted
from watcher_sync.client.transport import segment


class MonitoringCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` for engines, sources and stored events."""

    def sources(self) -> list[models.Source]:
        """All sources of all engines."""
        return converted(self._get("/v1/sources", dict[str, Any]).get("sources"), list[models.Source])

    def engines(self) -> list[models.Engine]:
        """The engines of all groups, the leader of each group first."""
        return converted(self._get("/v1/engines", dict[str, Any]).get("engines"), list[models.Engine])

    def inventories(self) -> list[models.Inventory]:
        """The inventories of the live systems that are compared as a whole."""
        return converted(self._get("/v1/sources", dict[str, Any]).get("inventories"), list[models.Inventory])

    def source(self, name: str) -> models.Source:
        """One source.

        :raises NotFound: when there is none of this name.
        """
        return self._get(f"/v1/sources/{segment(name)}", models.Source)

    def parked(self, *, limit: int | None = None, marker: str | None = None) -> Iterator[models.ParkedEvent]:
        """Events that wait for an entity which does not exist yet, without their bodies."""
        return self._list("/v1/parked", "parked", models.ParkedEvent, {}, limit, marker)

    def quarantine(self, *, limit: int | None = None, marker: str | None = None) -> Iterator[models.Quarantined]:
        """Events that could not be decoded or applied, without their bodies."""
        return self._list("/v1/quarantine", "quarantine", models.Quarantined, {}, limit, marker)

    def quarantined(self, number: int) -> models.QuarantinedWhole:
        """One quarantined event with its body.

        :raises NotFound: when there is none with this id.
        """
        return self._get(f"/v1/quarantine/{number}", models.QuarantinedWhole)

    def replay(self, number: int) -> models.Replayed:
        """Applies a quarantined event again. If it is refused again, it stays in quarantine.

        :raises NotFound: when there is none with this id.
        """
        return self._transport.request("POST", f"/v1/quarantine/{number}/replay").read(models.Replayed)

    def drop(self, number: int) -> None:
        """Deletes a quarantined event.

        :raises NotFound: when there is none with this id.
        """
        self._transport.request("DELETE", f"/v1/quarantine/{number}")
