# SPDX-License-Identifier: Apache-2.0
"""An instance that an earlier release registered with stored levels works after the upgrade without them."""

from __future__ import annotations

import datetime

import msgspec
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.model import Model
from watcher_sync.model.vnf.evaluation import evaluate_inputs
from watcher_sync.model.vnf.matching import VduInput
from watcher_sync.storage import schema
from watcher_sync.storage.tables import Tables
from watcher_sync.storage.types import Document

REGISTRATION = {
    "cluster": "edge",
    "namespace": "default",
    "vnfd_id": "helloworld3",
    "vdus": {"VDU1": {"workload": {"kind": "Deployment", "name": "vdu1"}, "initial": 0, "min": 0, "max": 3}},
    "aspects": {"vdu1_aspect": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
}
LEVELS = {"vdu1_aspect": [{"VDU1": 0}, {"VDU1": 1}, {"VDU1": 2}]}


def test_an_instance_with_stored_levels_works_after_the_upgrade(any_database_url: str) -> None:
    store = opened(any_database_url, builtin_kinds())
    plain = Tables(Kinds())
    schema.upgrade(store.database, plain, "0007")
    documents = ("vdus", "aspects", "levels", "versions")
    names = (*REGISTRATION, "levels", "id", "state", "seq", "versions")
    table = sa.table("vnf_instances", *[sa.column(n, Document() if n in documents else None) for n in names])
    versions = {"registration": "~00000000000000000001"}
    with store.database.begin() as connection:
        connection.execute(
            sa.insert(table).values(**REGISTRATION, levels=LEVELS, id="old", state="UNKNOWN", seq=1, versions=versions)
        )
        connection.execute(
            sa.insert(plain.journal).values(
                seq=1, time=datetime.datetime.now(datetime.UTC), kind="vnf_instance", entity_id="old",
                change="created", delta={n: [None, v] for n, v in {**REGISTRATION, "levels": LEVELS}.items()},
                versions=versions, event_id="1", event_type="vnf_instance.put", source="api", merged=1,
            )
        )  # fmt: skip
        connection.execute(sa.update(plain.journal_head).values(seq=1))
    schema.upgrade(store.database, store.tables)

    loaded = store.load().snapshot().get("vnf_instance", "old")
    follower = Model(store.kinds)
    store.catch_up(follower)
    followed = follower.snapshot().get("vnf_instance", "old")
    for vnf in (loaded, followed):
        assert isinstance(vnf, VnfInstance)
        vdu = VduInput(kind="Deployment", name="vdu1", resolved=True, wanted=0)
        assert evaluate_inputs(vnf, {"VDU1": vdu}, new_id=str).values["scale_level"] == {"vdu1_aspect": 0}
    assert msgspec.to_builtins(loaded) == msgspec.to_builtins(followed)
    store.database.dispose()
