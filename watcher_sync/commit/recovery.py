# SPDX-License-Identifier: Apache-2.0
"""Reports a database that went back in time."""

from __future__ import annotations

from oslo_log import log as logging

from watcher_sync.storage.epochs import Position

LOG = logging.getLogger(__name__)


def report(known: Position, position: Position) -> None:
    """Log what happened, and what an operator can expect.

    :param known: the last commit of the history that the database lost.
    :param position: where it continues.
    """
    LOG.error(
        "The database went back in time, or was replaced: it has no commit at %s. It continues at %s. The tables are "
        "loaded again, the sources continue from their positions in the database, and the reconcilers run. What was "
        "acknowledged meanwhile is lost unless a source or a reconciler repeats it",
        known,
        position,
    )
