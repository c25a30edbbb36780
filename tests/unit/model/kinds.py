# SPDX-License-Identifier: Apache-2.0
"""Kinds for the tests of the model: with ids that are used once, and with ids that are used again."""

from __future__ import annotations

from typing import Annotated

from watcher_sync.model.kinds import Count, Entity, In, Kinds, Text, kind


@kind("ticket", plural="tickets", indexes=("owner",))
class Ticket(Entity, frozen=True, kw_only=True, gc=False):
    """Ids are used once; three facets."""

    owner: Annotated[Text | None, In("state")] = None
    place: Annotated[Text | None, In("placement")] = None
    size: Annotated[Count | None, In("size")] = None


@kind("slot", plural="slots", ids_reused=True, indexes=("owner",))
class Slot(Entity, frozen=True, kw_only=True, gc=False):
    """Ids are used again; one facet."""

    owner: Annotated[Text | None, In("state")] = None


def kinds() -> Kinds:
    """Both."""
    return Kinds(Ticket, Slot)
