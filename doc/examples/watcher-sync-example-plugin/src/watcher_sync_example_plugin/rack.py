# SPDX-License-Identifier: Apache-2.0
"""The kind ``rack``: declared here once; table, JSON and look-ups follow from it."""

from __future__ import annotations

from typing import Annotated, Literal

from watcher_sync.model.kinds import Count, Doc, Entity, In, Text, kind


@kind("rack", plural="racks", anchor="power", ids_reused=True, indexes=("room",))
class Rack(Entity, frozen=True, kw_only=True, gc=False):
    """A rack of machines. Id: the name on its door, which may be given to another rack later."""

    room: Annotated[Text | None, In("power"), Doc("The room that it is in.")] = None
    power: Annotated[Literal["on", "off"] | None, In("power"), Doc("Whether it has power.")] = None
    watts: Annotated[Count | None, In("power"), Doc("What it draws, W.")] = None
