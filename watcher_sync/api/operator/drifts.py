# SPDX-License-Identifier: Apache-2.0
"""``/v1/drifts``: where the model and the live systems differ.

A difference between the model and a live system has ``cause`` live. A caller who may not see all projects gets the
drifts of the entities of its project, without the fields that tell of hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.identity.visibility import visibility
from watcher_sync.api.service import Service
from watcher_sync.extension import DriftCause, gather
from watcher_sync.model.visibility import Hidden, whole
from watcher_sync.storage.drifts import DriftRow, Owned, Side, drift_page

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
        "id": {"type": ["integer", "null"]},
        "cause": {"enum": ["live"], "description": "What differs: the live system."},
        "kind": schemas.STRING,
        "entity_id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "null: unknown here."},
        "field": schemas.STRING | {"description": "Empty if the whole entity is missing on one side."},
        "model_value": {},
        "live_value": {},
        "policy": {"enum": ["heal", "observe"]},
        "source": schemas.STRING | {"description": "The scope of the comparison."},
        "since": schemas.TIME,
        "summary": schemas.STRING | {"description": "What differs, in words."},
        "remedy": schemas.STRING | {"description": "What an operator can do."},
    },
}


class DriftList:
    """``/v1/drifts``: differences between the model and the live systems, after the drifts of other causes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._causes = gather(lambda extension: extension.drift_causes())
        self.on_get = operation(
            summary="List the drifts",
            description="\n".join([__doc__ or "", *map(_describe, self._causes)]),
            rule=Rule("drifts:list", PROJECT_READER),
            query=schemas.paging(service.max_limit)
            | {
                "marker": {
                    "type": ["integer", "string"],
                    "minimum": 0,
                    "maximum": 2**63 - 1,
                    "pattern": "|".join(f"^{cause.kind}," for cause in self._causes) or "(?!)",
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
                **{
                    cause.parameter: {
                        "type": "boolean",
                        "default": False,
                        "description": f"true: the list begins with {cause.entities}.",
                    }
                    for cause in self._causes
                },
                "all_projects": {
                    "type": "boolean",
                    "description": "true: the drifts of all projects, or 403; false: those of the caller's project.",
                },
            },
            responses={200: Answer(schemas.collection("drifts", _schema(self._causes)))},
            tag="drifts",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page: by id the entities of each cause that is asked for, and then by id the differences."""
        query = call.query
        limit: int = query["limit"]
        sight = visibility(call.context, self._service.kinds, query.get("all_projects"))
        project = sight.project_id
        beginnings, marker = self._beginnings(query)
        answer = AnswerPage(limit)
        for cause, after in beginnings:
            if answer.next_marker is None and self._shows(cause, call, sight.hidden):
                left = max(1, limit - len(answer.documents))
                with self._service.reading() as connection:
                    page = cause.page(connection, self._service.tables, after, left, query.get("source"), project)
                answer.add_from(page.rows, _marker_of, lambda document: document, more=page.more)
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

    def _shows(self, cause: DriftCause, call: Call, hidden: Mapping[str, Hidden]) -> bool:
        """Whether the request asks for the entities of a cause, and the caller may list them with these fields."""
        kind = self._service.kinds.get(cause.kind)
        if kind is None or "missing" in call.query or call.query.get("kind", kind.name) != kind.name:
            return False
        return call.context.may(f"{kind.plural}:list") and cause.fields.isdisjoint(whole(hidden.get(kind.name, {})))

    def _beginnings(self, query: Mapping[str, Any]) -> tuple[list[tuple[DriftCause, str]], int]:
        """After which entity of each cause, and after which difference, the page begins."""
        marker = query.get("marker")
        if isinstance(marker, int):
            return [], marker
        kind, _, after = ("" if marker is None else marker.replace("\0", "")).partition(",")
        begin = next((i for i, cause in enumerate(self._causes) if cause.kind == kind), 0)
        asked = [(cause, "") for cause in self._causes[begin:] if query[cause.parameter] and cause.kind != kind]
        return ([(self._causes[begin], after), *asked] if kind else asked), 0


def _describe(cause: DriftCause) -> str:
    return f"With ``{cause.parameter}=true`` the list begins with {cause.entities}, which have ``cause`` {cause.name}."


def _schema(causes: Sequence[DriftCause]) -> schemas.Schema:
    """The schema of a drift of one of these causes."""
    names = [cause.name for cause in causes]
    members = DRIFT["properties"] | {
        "cause": {
            "enum": ["live", *names],
            "description": f"What differs: {', or a '.join(['the live system', *names])}.",
        }
    }
    for name, text in (member for cause in causes for member in cause.members.items()):
        members[name] = members[name] | {"description": f"{members[name].get('description', '')} {text}".strip()}
    return DRIFT | {"properties": members}


def _marker_of(document: Mapping[str, Any]) -> str:
    return f"{document['kind']},{document['entity_id']}"


def _of_difference(drift: DriftRow) -> dict[str, Any]:
    summary, remedy = _explain_difference(drift)
    more = {"cause": "live", "name": _name_of(drift), "summary": summary, "remedy": remedy}
    return {**msgspec.structs.asdict(drift), **more}


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
