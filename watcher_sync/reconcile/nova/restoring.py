# SPDX-License-Identifier: Apache-2.0
"""Restores servers that the model has as deleted for good, although Nova lists them.

Each is confirmed by a GET of the server, so a run asks for a limited number. The rest waits for the next run. Servers
that an earlier run asked for come last, so one that cannot be restored does not keep the others waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import InvalidEvent, RowRefused
from watcher_sync.reconcile.nova.listing import NovaApi
from watcher_sync.reconcile.nova.writer import InventoryWriter, NovaDivergence
from watcher_sync.reconcile.openstack import CloudError

LOG = logging.getLogger(__name__)

MAX_RESTORED: Final = 100
"""Servers that one run asks for."""


class Restored(msgspec.Struct, kw_only=True):
    """The result of one run."""

    written: int = 0
    refused: dict[str, str] = {}
    """``<kind> <id>`` -> why the model or the database refuses to store it."""


class Restorer:
    """Restores servers. For one thread at a time."""

    def __init__(self, writer: InventoryWriter) -> None:
        self._writer = writer
        self._asked: set[str] = set()
        """Servers that earlier runs asked for, and that were not restored."""

    def restore(self, buried: Sequence[NovaDivergence], api: NovaApi) -> Restored:
        """Restore servers, as far as Nova still has them.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        result = Restored()
        self._asked &= {what.id for what in buried}
        due = sorted(buried, key=lambda what: what.id in self._asked)
        for what in due[:MAX_RESTORED]:
            try:
                server = api.server(what.id)
            except CloudError as exc:
                LOG.warning("instance %s: it is unknown whether it was deleted: %s", what.id, exc)
                return result
            if server is None or server.is_deleted or not self._write(what, result):
                self._asked.add(what.id)
        if len(due) > MAX_RESTORED:
            LOG.info(
                "%d instances that exist are deleted in the model: the next run restores them", len(due) - MAX_RESTORED
            )
        return result

    def _write(self, what: NovaDivergence, result: Restored) -> bool:
        """Write one server; returns whether it was written."""
        try:
            if not self._writer.restore(what):
                return False
        except (InvalidEvent, RowRefused) as exc:
            result.refused[f"{what.kind} {what.id}"] = str(exc)
            return False
        LOG.warning("instance %s was taken for deleted, but exists", what.id)
        result.written += 1
        return True
