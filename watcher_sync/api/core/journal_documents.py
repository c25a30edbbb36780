# SPDX-License-Identifier: Apache-2.0
"""A journal row as a reader gets it: the actor is shown to its own project, and to readers of all projects."""

from __future__ import annotations

from typing import Any

from watcher_sync.api.core.request_context import ALL_PROJECTS, RequestContext
from watcher_sync.storage.journal import JournalRow


def journal_document(row: JournalRow, reader: RequestContext | None) -> dict[str, Any]:
    """The document of a row; ``actor`` is null if the reader may not see it.

    :param reader: None: it sees every actor.
    """
    document = row.document()
    actor = row.actor
    if reader is None or actor is None:
        return document
    if actor["project_id"] != reader.project_id and not reader.may(ALL_PROJECTS):
        document["actor"] = None
    return document
