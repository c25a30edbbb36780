# SPDX-License-Identifier: Apache-2.0
"""The delete guard: an empty list from a live system usually means a failure, so too many deletions are refused."""

from __future__ import annotations


def refuses_deletes(lost: int, known: int, max_percent: float) -> bool:
    """Whether the delete guard refuses these deletions.

    :param lost: entities of one kind that a listing lacks.
    :param known: all entities of the kind in the model that the listing would show.
    :param max_percent: of the known entities that may be lost at once.
    """
    return lost * 100 > max_percent * known
