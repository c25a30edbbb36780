# SPDX-License-Identifier: Apache-2.0
"""The facts that only reconciliation can know, because Cinder publishes them nowhere.

A difference of the installation without reconciliation must be one of these.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from typing import NamedTuple

from watcher_sync.testing.comparison import ModelDifference


class Fact(NamedTuple):
    """One fact that no notification brings."""

    name: str
    kind: str
    fields: Collection[str]
    """Empty: the entity as a whole."""
    reason: str
    """Why a notification does not have it."""
    holds: Callable[[ModelDifference], bool] = lambda _difference: True

    def explains(self, difference: ModelDifference, earlier: Collection[str]) -> bool:
        """Whether this fact is the reason of the difference.

        :param earlier: ids of what existed before the queue.
        """
        if difference.kind != self.kind:
            return False
        if difference.field is None:
            return not self.fields and difference.model is None and difference.entity_id in earlier
        return difference.field in self.fields and self.holds(difference)


def _is_error(difference: ModelDifference) -> bool:
    return str(difference.truth).startswith("error")


FACTS = (
    Fact("earlier volume", "volume", (), "It existed before the queue, and no event named it since."),
    Fact("earlier type", "volume_type", (), "It existed before the queue, and no event named it since."),
    Fact("earlier pool", "storage_pool", (), "The scheduler reports a pool when its figures change."),
    Fact("earlier backend", "storage_backend", (), "The scheduler reports a backend with its pools."),
    Fact(
        "service",
        "storage_backend",
        ("status", "state", "disabled_reason", "availability_zone"),
        "Cinder publishes nothing about its services.",
    ),
    Fact(
        "report",
        "storage_pool",
        ("max_over_subscription_ratio", "reserved_percentage", "volume_backend_name"),
        "capacity.pool has the four capacities only.",
    ),
    Fact(
        "unknown capacity",
        "storage_pool",
        ("total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb", "allocated_capacity_gb"),
        "The scheduler fails to publish a pool without a known capacity, and all that it would publish with it.",
        lambda difference: difference.truth is None or difference.truth == 0,
    ),
    Fact(
        "inventory",
        "volume",
        ("bootable", "multiattach", "source_volume_id", "migration_status", "name_id"),
        "The payload does not have it.",
    ),
    Fact(
        "failed operation",
        "volume",
        ("status",),
        "cinder-volume writes the status after a failure, and publishes nothing.",
        _is_error,
    ),
    Fact(
        "failed snapshot",
        "volume_snapshot",
        ("status",),
        "cinder-volume writes the status after a failure, and publishes nothing.",
        _is_error,
    ),
    Fact(
        "rounded time",
        "volume_snapshot",
        ("created_at",),
        "The snapshot that a revert takes first is published before the database rounds its time to seconds.",
        lambda difference: abs(difference.truth - difference.model) < datetime.timedelta(seconds=1),
    ),
    Fact("metadata", "volume", ("metadata",), "cinder-api publishes nothing about a change of metadata."),
    Fact("migration", "volume", ("pool_id",), "cinder-volume publishes nothing about a migration."),
    Fact("specs", "volume_type", ("extra_specs",), "volume_type_extra_specs.update and .delete have no value."),
)


def explain(difference: ModelDifference, earlier: Collection[str]) -> Fact | None:
    """The fact that is the reason of a difference."""
    return next((fact for fact in FACTS if fact.explains(difference, earlier)), None)
