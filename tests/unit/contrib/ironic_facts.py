# SPDX-License-Identifier: Apache-2.0
"""What Ironic's notifications do not tell, as far as the story of ``tests/real_ironic`` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class SilentFact(NamedTuple):
    """Fields that a conductor saves without a notification."""

    fields: Sequence[str]
    """Of a node."""
    steps: Sequence[str]
    """Steps of the story after which they differ; empty: any."""
    reason: str


SILENT: Mapping[str, SilentFact] = {
    "cleared error": SilentFact(
        ("last_error",), (), "The power sync clears the error of the last action once it has read the power state."
    ),
    "repeated power failure": SilentFact(
        ("maintenance", "maintenance_reason", "fault"),
        ("power_stays_unreachable",),
        "The power sync publishes a power failure only if the power state changes, and it was unknown before.",
    ),
    "allocation": SilentFact(("instance_id",), ("allocate",), "The conductor associates the node with an allocation."),
}


def silent_fact(what: str, step: str) -> str | None:
    """The name of the fact that explains a difference after a step.

    :param what: kind, id and field.
    """
    field = what.rpartition(" ")[2]
    for name, fact in SILENT.items():
        if what.startswith("baremetal_node ") and field in fact.fields and step in (fact.steps or (step,)):
            return name
    return None
