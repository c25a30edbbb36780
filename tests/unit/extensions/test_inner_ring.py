# SPDX-License-Identifier: Apache-2.0
"""What our own extensions import of the core beyond the stable interface, because they are released with it.

Handlers, kinds and reconcilers should need stable names only; the others are here, each by name. They serve reports
and repairs that a plugin leaves to ``ListingReconciler``, texts and times of wires, and rows of the database. The
other parts of an extension are here by module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from watcher_sync.testing.stable_imports import STABLE_NAMES

ROOT = Path(__file__).parents[3]
EXTENSIONS = ROOT / "watcher_sync" / "extensions"

DIALECTS = {"handler", "kinds", "reconcile", "capacity", "liveness"}
"""The parts of an extension that a plugin could have, too."""

NAMES = {
    "watcher_sync.commit.direct": "DirectWriter",
    "watcher_sync.conf.reconcile": "HEAL policies",
    "watcher_sync.decoding": "UNDECODABLE",
    "watcher_sync.events": "KNOWN_BEFORE PartialPayload",
    "watcher_sync.exceptions": "OperationRunning RowRefused StaleToken SyncHeldBack described",
    "watcher_sync.model.changes": "WRITTEN_HERE base_of is_after",
    "watcher_sync.model.delete_guard": "refuses_deletes",
    "watcher_sync.model.kinds": "Kind Kinds",
    "watcher_sync.model.model": "Snapshot Staged",
    "watcher_sync.model.scopes": "prefix_of",
    "watcher_sync.model.texts": "for_people",
    "watcher_sync.model.tombstones": "Tombstone",
    "watcher_sync.periodic": "Outage PeriodicThread",
    "watcher_sync.plugins": "load_plugins register_options",
    "watcher_sync.reconcile.drift": "Divergence LiveView compare plain",
    "watcher_sync.reconcile.entries": "why_unreadable",
    "watcher_sync.reconcile.repair": "Healer",
    "watcher_sync.storage.database.database": "retried translated",
    "watcher_sync.storage.drifts": "list_drifts replace_drifts",
    "watcher_sync.storage.groups": "source_status",
    "watcher_sync.storage.groups.source_status": (
        "declare_inventory forget_inventory read_inventory record_full_sync write_inventory"
    ),
    "watcher_sync.storage.table_model": "TableModel TableView",
    "watcher_sync.wire.fields": "BadEnvelope is_zero_time parse_time title_of",
    "watcher_sync.wire.limits": "MAX_TEXT_CHARS Text",
}
"""Module -> what dialects import of it."""

MODULES = """
accounts api.edge.feed api.edge.rate_limits api.entities.entity_collection api.entities.entity_item
api.entities.entity_list api.entities.writing api.http.envelope api.http.etags api.http.openapi
api.http.operation api.http.pages api.http.positions api.http.problems api.http.request_context api.http.rules
api.http.schemas api.http.validation api.identity.keystone api.identity.visibility api.service assembly.api
assembly.probing assembly.reconcile assembly.store commit.direct commit.evaluation conf.cloud_account
conf.drivers conf.engine conf.files conf.insecure_account conf.keystone conf.networks conf.opts conf.private
conf.reconcile conf.urls decoding dispatch engine.engine engine.services escaping events exceptions extension
model.changes model.kinds model.loading model.model model.transaction model.visibility operations periodic
plugins read.entity_reader read.journal_reader read.past.past_replicas read.reading read.row_entities
reconcile.drift reconcile.notify sources.base sources.cursors sources.session sources.session_source
storage.database.database storage.database.database_time storage.database.pages storage.epochs
storage.groups.leases storage.groups.operation_leases storage.groups.source_status storage.loading
storage.schema.tables storage.table_model storage.writing.journal storage.writing.locked
storage.writing.statements storage.writing.store tasks transports.exceptions transports.nats.api
transports.nats.client_settings transports.nats.connection transports.nats.messages transports.rabbitmq.broker
transports.rabbitmq.connection transports.scrubbing wire.callback_urls wire.encodings wire.fields wire.limits
wire.log_streams wire.request_contexts
"""
"""Modules that the other parts import, below ``watcher_sync``."""


def imports() -> Iterator[tuple[bool, str, str]]:
    """(whether a dialect imports it, module, name) of each name of the core that is not stable."""
    for path in EXTENSIONS.glob("*/**/*.py"):
        parts = path.with_suffix("").relative_to(EXTENSIONS).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("watcher_sync.") and module.split(".")[1] not in {"extensions", "client"}:
                for alias in node.names:
                    if alias.name not in STABLE_NAMES.get(module, ()) and f"{module}.{alias.name}" not in STABLE_NAMES:
                        yield parts[1] in DIALECTS, module, alias.name


def test_handlers_kinds_and_reconcilers_import_no_other_name_beyond_the_stable_interface() -> None:
    listed = {(module, name) for module, names in NAMES.items() for name in names.split()}
    assert {(module, name) for is_dialect, module, name in imports() if is_dialect} == listed


def test_the_other_parts_import_no_other_module_beyond_the_stable_interface() -> None:
    found = set()
    for is_dialect, module, name in imports():
        path = ROOT / f"{module}.{name}".replace(".", "/")
        is_module = path.is_dir() or path.with_suffix(".py").exists()
        if not is_dialect:
            found.add((f"{module}.{name}" if is_module else module).removeprefix("watcher_sync."))
    assert found == set(MODULES.split())
