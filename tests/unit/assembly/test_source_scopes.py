# SPDX-License-Identifier: Apache-2.0
"""Which entities exist through each configured source, and what a source learns of the kinds."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.migrated import migrate
from watcher_sync.assembly.sources import digest_of_fields, source_makers, source_scopes
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.federation.handler.handler import FederationHandler
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

CONF = """
[engine]
enabled_sources = cell, edge, core, north, files
[source_cell]
driver = rabbitmq
[source_edge]
driver = kubernetes
[source_core]
driver = kubernetes
cluster = heart
[source_north]
driver = federation
[source_files]
driver = replay
"""


class Plain:
    """A plugin's handler from before scopes."""

    events = {"plain": "plain"}  # noqa: RUF012
    drivers = ("rabbitmq",)

    def plain(self, event: Event, view: object) -> None:
        """Nothing."""


@pytest.fixture
def conf(tmp_path) -> cfg.ConfigOpts:
    conf, path = cfg.ConfigOpts(), tmp_path / "ws.conf"
    path.write_text(CONF)
    opts.register_opts(conf)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    return conf


def test_each_source_has_the_scopes_of_its_handlers_with_the_origin_of_its_driver(conf):
    handlers = {
        "kubernetes": KubernetesHandler(),
        "nova": NovaHandler(),
        "federation": FederationHandler(),
        "plain": Plain(),
    }
    found = source_scopes(conf, Dispatcher(handlers.items()))
    shown = {source: [(s.kind, s.field, s.value, s.is_prefix) for s in scopes] for source, scopes in found.items()}
    assert shown == {
        "cell": [(kind, "", "", False) for kind in ("instance", "aggregate", "compute_node")],
        "edge": [
            ("pod", "cluster", "edge", False),
            ("workload", "cluster", "edge", False),
            ("custom_object", "cluster", "edge", False),
            ("cluster", "id", "edge", False),
        ],
        "core": [
            ("pod", "cluster", "heart", False),
            ("workload", "cluster", "heart", False),
            ("custom_object", "cluster", "heart", False),
            ("cluster", "id", "heart", False),
        ],
        "north": [("", "id", "north:", True)],
        "files": [],
    }


def test_a_source_knows_the_fields_that_the_store_has(conf: cfg.ConfigOpts, tmp_path) -> None:
    kinds = builtin_kinds()
    store = Store(sa.create_engine(f"sqlite:///{tmp_path / 'ws.sqlite'}"), kinds.without(["aggregate"]))
    migrate(store)
    conf.set_override("enabled_sources", ["files"], group="engine")
    assert source_makers(conf, store)["files"]().stored_fields == digest_of_fields(store.kinds)
    store.dispose()


def test_a_kind_that_gets_its_table_later_is_another_digest() -> None:
    kinds = builtin_kinds()
    assert digest_of_fields(kinds) == digest_of_fields(builtin_kinds())
    assert len({digest_of_fields(each) for each in (kinds, kinds.without(["aggregate"]), {})}) == 3
    assert not re.search("0x[0-9a-f]", str([each.type for kind in kinds.values() for each in kind.fields.values()]))
