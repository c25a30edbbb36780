# SPDX-License-Identifier: Apache-2.0
"""Explains drifts in words: what differs, and what an operator can do. Pure functions.

The page and the command line show these texts, so they are the same there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.read.level_drifts import STATES, LevelDrift
from watcher_sync.storage.drifts import DriftRow

_MEANING: Final[Mapping[str, str]] = {
    "DRIFTED": "The number of pods is between two levels.",
    "OUT_OF_RANGE": "The number of pods is below the minimum or above the maximum.",
    "UNRESOLVED": "A workload of the registration does not exist in the cluster.",
}
_REMEDY: Final[Mapping[str, str]] = {
    "DRIFTED": "Scale the workload to a level, or register the levels that it has.",
    "OUT_OF_RANGE": "Scale the workload into its range, or register another range.",
    "UNRESOLVED": "Create the workload, or register its name.",
}

_OBSERVED: Final = "Nothing is written. Correct the live system, or set the policy of the kind to heal."
_REMEDIES_OF_ENTITIES: Final = {
    "gone": "A comparison deletes it from the model. If it stays, the delete guard holds the deletion back: "
    "confirm the deletion, or repair the live system.",
    "new": "A comparison adds it to the model. If the drift stays, the log of the engine has the reason.",
    "field": "A comparison writes the live value into the model. If the drift stays, the log of the engine has the "
    "reason.",
}


def explain_level(drift: LevelDrift) -> tuple[str, str]:
    """What differs, and what to do, for an instance that is at no level."""
    details = [
        f"{vdu}: {result.get('detail') or result['result']}"
        for vdu, result in drift.vdu_results.items()
        if isinstance(result, dict) and result.get("result") in STATES
    ]
    meaning = _MEANING[drift.state]
    return f"{meaning} {'; '.join(details)}".strip(), _REMEDY[drift.state]


def explain_difference(drift: DriftRow) -> tuple[str, str]:
    """What differs, and what to do, for a difference between the model and the live system."""
    if drift.field:
        what, which = f"{_words(drift.field)}: the model and the live system have different values.", "field"
    elif drift.live_value is None:
        what, which = "The model has it, the live system does not.", "gone"
    else:
        what, which = "The live system has it, the model does not.", "new"
    return what, _OBSERVED if drift.policy == "observe" else _REMEDIES_OF_ENTITIES[which]


def name_of(drift: DriftRow) -> str | None:
    """The name that a drift of a whole entity has in place of a value."""
    value: Any = None if drift.field else drift.model_value or drift.live_value
    return value if isinstance(value, str) else None


def _words(field: str) -> str:
    return field.replace("_", " ").capitalize()
