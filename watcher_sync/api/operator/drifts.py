# SPDX-License-Identifier: Apache-2.0
"""``/v1/drifts``: where the model, the live systems and the registrations of VNF instances differ.

A difference between the model and a live system has ``cause`` live. With ``levels=true`` the list begins with the VNF
instances whose pods match no level, which have ``cause`` level. A caller who may not see all projects gets the drifts
of the entities of its project, without the fields that tell of hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.identity.visibility import visibility
from watcher_sync.api.service import Service
from watcher_sync.model.visibility import Hidden, whole
from watcher_sync.model.vnf.evaluation import Result
from watcher_sync.read.level_drifts import KIND, STATES, LevelDrift, list_level_drifts
from watcher_sync.storage.database.pages import DecodedPage
from watcher_sync.storage.drifts import DriftRow, Owned, Side, drift_page

_MEANING: Final[Mapping[str, str]] = {
    "DRIFTED": "The number of pods is between two levels.",
    "OUT_OF_RANGE": "The number of pods is below the minimum or above the maximum.",
    "UNRESOLVED": "A workload of the registration does not exist in the cluster, or is being deleted.",
    "HELD_BACK": "An operation failed and is not resolved, so the instance is not synced.",
}
_NOT_RUNNING: Final = (
    "Pods that a workload wants do not run.",
    "Find out why they do not run. The workload wants the right number, so do not scale it.",
)
_REMEDY: Final[Mapping[str, str]] = {
    "DRIFTED": "Scale the workload to a level, or register the levels that it has.",
    "OUT_OF_RANGE": "Scale the workload into its range, or register another range.",
    "UNRESOLVED": "Create the workload, or register its name.",
    "HELD_BACK": "End a new operation COMPLETED or ROLLED_BACK, or register the instance again.",
}

_OBSERVED: Final = "Nothing is written. Correct the live system, or set the policy of the kind to heal."
_REMEDIES_OF_ENTITIES: Final = {
    "gone": "A comparison deletes it from the model. If it stays, the delete guard holds the deletion back: "
    "confirm the deletion, or repair the live system.",
    "new": "A comparison adds it to the model. If the drift stays, the log of the engine has the reason.",
    "field": "A comparison writes the live value into the model. If the drift stays, the log of the engine has the "
    "reason.",
}

DRIFT: schemas.Schema = {
    "type": "object",
    "required": ["id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since"],
    "properties": {
        "id": {"type": ["integer", "null"], "description": "null: a VNF instance that is at no level."},
        "cause": {"enum": ["live", "level"], "description": "What differs: the live system, or a level."},
        "kind": schemas.STRING,
        "entity_id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "null: unknown here."},
        "field": schemas.STRING | {"description": "Empty if the whole entity is missing on one side."},
        "model_value": {"description": "Of a level: the state SYNCED."},
        "live_value": {"description": "Of a level: the state of the instance."},
        "policy": {"enum": ["heal", "observe"], "description": "Of a level: observe, because no cluster is changed."},
        "source": schemas.STRING | {"description": "The scope of the comparison; of a level, the cluster."},
        "since": schemas.TIME,
        "summary": schemas.STRING | {"description": "What differs, in words."},
        "remedy": schemas.STRING | {"description": "What an operator can do."},
    },
}

_LEVEL: Final = f"{KIND},"
"""The beginning of a marker among the instances that are at no level."""


class DriftList:
    """``/v1/drifts``: differences between the model and the live systems, and from the levels of VNF instances."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.on_get = operation(
            summary="List the drifts",
            description=__doc__ or "",
            rule=Rule("drifts:list", PROJECT_READER),
            query=schemas.paging(service.max_limit)
            | {
                "marker": {
                    "type": ["integer", "string"],
                    "minimum": 0,
                    "maximum": 2**63 - 1,
                    "pattern": f"^{_LEVEL}",
                    "maxLength": 2000,
                    "description": "The next_marker of the previous page.",
                },
                "kind": {"enum": sorted(service.kinds), "description": "Drifts of this kind only."},
                "source": schemas.SHORT_TEXT | {"description": "Drifts found for this source, or in this cluster."},
                "missing": {
                    "enum": list(get_args(Side)),
                    "description": "live: only entities that the model has and the live system does not: a comparison "
                    "deletes them, or the delete guard holds that back. model: only those that the model lacks.",
                },
                "levels": {
                    "type": "boolean",
                    "default": False,
                    "description": "true: the list begins with the VNF instances that are at no level.",
                },
                "all_projects": {
                    "type": "boolean",
                    "description": "true: the drifts of all projects, or 403; false: those of the caller's project.",
                },
            },
            responses={200: Answer(schemas.collection("drifts", DRIFT))},
            tag="drifts",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page: by id the instances that are at no level, and then by id the differences."""
        query = call.query
        limit: int = query["limit"]
        sight = visibility(call.context, self._service.kinds, query.get("all_projects"))
        project = sight.project_id
        level_marker, marker = _markers(query)
        answer = AnswerPage(limit)
        if level_marker is not None and self._shows_levels(call, sight.hidden):
            levels = self._levels(query, project, level_marker, limit)
            answer.add_from(levels.rows, lambda row: f"{_LEVEL}{row.id}", _of_level, more=levels.more)
        if answer.next_marker is None:
            drifts = drift_page(
                self._service.store.database,
                after=marker,
                limit=max(1, limit - len(answer.documents)),
                kind=query.get("kind"),
                source=query.get("source"),
                missing=query.get("missing"),
                owned=None if project is None else Owned(self._service.tables, project),
                hidden={name: whole(hidden) for name, hidden in sight.hidden.items()},
            )
            answer.add_from(drifts.rows, lambda row: row.id, _of_difference, more=drifts.more)
        call.answer({"drifts": answer.documents, **call.next_page(answer.next_marker)})

    def _shows_levels(self, call: Call, hidden: Mapping[str, Hidden]) -> bool:
        """Whether the request asks for the instances, and the caller may list them with their state."""
        kind = self._service.kinds.get(KIND)
        if "missing" in call.query:
            return False
        if kind is None or call.query.get("kind", KIND) != KIND or not call.context.may(f"{kind.plural}:list"):
            return False
        return not {"name", "state", "vdu_results", "cluster"} & set(whole(hidden.get(KIND, {})))

    def _levels(self, query: Mapping[str, Any], project: str | None, after: str, limit: int) -> DecodedPage[LevelDrift]:
        with self._service.reading() as connection:
            return list_level_drifts(
                connection,
                self._service.tables,
                after=after,
                limit=limit,
                cluster=query.get("source"),
                project_id=project,
            )


def _markers(query: Mapping[str, Any]) -> tuple[str | None, int]:
    """Where the instances and the differences begin; None: the page has no instances."""
    marker = query.get("marker")
    if marker is None:
        return ("" if query["levels"] else None), 0
    if isinstance(marker, int):
        return None, marker
    return marker.removeprefix(_LEVEL).replace("\0", ""), 0


def _of_level(drift: LevelDrift) -> dict[str, Any]:
    summary, remedy = _explain_level(drift)
    return {
        "id": None,
        "cause": "level",
        "kind": KIND,
        "entity_id": drift.id,
        "name": drift.name,
        "field": "state",
        "model_value": "SYNCED",
        "live_value": drift.state,
        "policy": "observe",
        "source": drift.cluster or "",
        "since": drift.since,
        "summary": summary,
        "remedy": remedy,
    }


def _of_difference(drift: DriftRow) -> dict[str, Any]:
    summary, remedy = _explain_difference(drift)
    more = {"cause": "live", "name": _name_of(drift), "summary": summary, "remedy": remedy}
    return {**msgspec.structs.asdict(drift), **more}


def _explain_level(drift: LevelDrift) -> tuple[str, str]:
    """What differs, and what to do, for an instance that is at no level."""
    found = {
        vdu: result
        for vdu, result in drift.vdu_results.items()
        if isinstance(result, dict) and result.get("result") in STATES
    }
    details = "; ".join(f"{vdu}: {result.get('detail') or result['result']}" for vdu, result in found.items())
    meaning, remedy = _MEANING[drift.state], _REMEDY[drift.state]
    # Only a VDU whose pods do not settle has a time.
    if drift.state == Result.DRIFTED.value and any("since" in result for result in found.values()):
        meaning, remedy = _NOT_RUNNING
    return f"{meaning} {details}".strip(), remedy


def _explain_difference(drift: DriftRow) -> tuple[str, str]:
    """What differs, and what to do, for a difference between the model and the live system."""
    if drift.field:
        what, which = f"{_words(drift.field)}: the model and the live system have different values.", "field"
    elif drift.live_value is None:
        what, which = "The model has it, the live system does not.", "gone"
    else:
        what, which = "The live system has it, the model does not.", "new"
    return what, _OBSERVED if drift.policy == "observe" else _REMEDIES_OF_ENTITIES[which]


def _name_of(drift: DriftRow) -> str | None:
    """The name that a drift of a whole entity has in place of a value."""
    value: Any = None if drift.field else drift.model_value or drift.live_value
    return value if isinstance(value, str) else None


def _words(field: str) -> str:
    return field.replace("_", " ").capitalize()
