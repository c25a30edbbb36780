# SPDX-License-Identifier: Apache-2.0
"""``/v1/outlets``: how far each outlet has published on its log, for administrators and readers of the system.

An outlet is listed once a process has published on it. It remains while it is not enabled any more.
"""

from __future__ import annotations

import msgspec

from watcher_sync.api.http import openapi, schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.extensions.log.cursors import FAILED, GONE, PUBLISHING, SNAPSHOT, STOPPED, OutletView, list_outlets

_NUMBER = {"type": "integer", "minimum": 0}

OUTLET: schemas.Schema = {
    "type": "object",
    "required": list(OutletView.__struct_fields__),
    "properties": {
        "outlet": schemas.STRING | {"description": "Its name in [outlets] enabled."},
        "driver": schemas.STRING,
        "partition": schemas.STRING,
        "state": {"enum": [SNAPSHOT, PUBLISHING, FAILED, STOPPED, GONE]},
        "detail": schemas.STRING | {"description": "Why it failed, or which changes were too large for the log."},
        "since": schemas.TIME | {"description": "When the state began."},
        "epoch": schemas.STRING | {"description": "Of the database, in the log; empty: a snapshot is needed."},
        "seq": _NUMBER | {"description": "The journal was read up to here."},
        "published_seq": _NUMBER | {"description": "The last change that the log has."},
        "lag": _NUMBER | {"description": "Rows of the journal that were not read yet."},
        "lag_seconds": {"type": "number", "minimum": 0, "description": "Seconds since the first of them."},
        "host": schemas.STRING | {"description": "The machine that publishes."},
        "pid": _NUMBER,
        "updated_at": schemas.TIME,
    },
}

_OUTLETS: schemas.Schema = {
    "type": "object",
    "required": ["outlets"],
    "properties": {"outlets": {"type": "array", "items": OUTLET}},
}


def routes(service: Service) -> list[openapi.Route]:
    """(URI template, resource) of each resource."""
    return [("/v1/outlets", OutletList(service)), ("/v1/outlets/{name}", OutletItem(service))]


class OutletList:
    """``/v1/outlets``: all outlets that publish on a log."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="List the outlets",
        rule=Rule("outlets:list", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer(_OUTLETS)},
        tag="outlets",
    )
    def on_get(self, call: Call) -> None:
        """Answers with all outlets by name."""
        call.answer({"outlets": [msgspec.structs.asdict(each) for each in _listed(self._service)]})


class OutletItem:
    """``/v1/outlets/{name}``: one outlet."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="Show one outlet",
        rule=Rule("outlets:show", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer(OUTLET)},
        errors=(404,),
        tag="outlets",
    )
    def on_get(self, call: Call, name: str) -> None:
        """Answers with the outlet of this name."""
        for each in _listed(self._service):
            if each.outlet == name:
                call.answer(msgspec.structs.asdict(each))
                return
        raise not_found(f"outlet {name}")


def _listed(service: Service) -> list[OutletView]:
    gone_after = float(service.conf.monitoring.stale_after)
    return list_outlets(service.store.database, gone_after=gone_after)
