# SPDX-License-Identifier: Apache-2.0
"""Checks that a plugin imports only names of the stable interface. What is not listed here is internal.

The contributor's documentation lists the same names with their meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_NAMES: Final = {
    "watcher_sync.events": (
        "Actor CLOUD_EVENTS EXCERPT_BYTES Event KUBERNETES_WATCH MAX_PORTION_BYTES NATIVE OSLO excerpt portions"
    ),
    "watcher_sync.exceptions": (
        "ConfigError InvalidEvent NotDeclared NotYet PluginConflict ReconcileError SourceError UnauthorisedEvent "
        "WatcherSyncError"
    ),
    "watcher_sync.handlers.base": "Handler",
    "watcher_sync.handlers.sortable": "NO_TIME digits name not_in_future utc",
    "watcher_sync.model.changes": "Change Delete Doubtful NEVER Outcome Seen Upsert Version absent after",
    "watcher_sync.model.scopes": "EntityScope",
    "watcher_sync.model.view": "View",
    "watcher_sync.extensions.dcm.handler.service_types": "ServiceType",
    "watcher_sync.model.kinds": (
        "AdminOnly Count DependsOn Derived Doc Entity Id In LongText MaxBytes Placeholder Reference Relation Text "
        "Vocabulary kind kind_of"
    ),
    "watcher_sync.extension": (
        "Api ComputedFields DriftCause Examined Extension ManageCommand OutletProcess OutletWorker PluginGroup"
    ),
    "watcher_sync.assembly.store": "open_store",
    "watcher_sync.api.http.bodies": "Body",
    "watcher_sync.api.http.operation": "Answer Call Rule operation",
    "watcher_sync.api.http.problems": "Problem bad_request not_found",
    "watcher_sync.api.http.rules": (
        "ADMIN ADMIN_OR_SYSTEM_READER EVERYBODY PROJECT_MANAGER PROJECT_MEMBER PROJECT_READER"
    ),
    "watcher_sync.conf.findings": "NamedFile host_in is_local is_remote_http place",
    "watcher_sync.sources.base": "Emit IntakeClosed Source SourceState SourceStatus",
    "watcher_sync.sources.redelivery": "Redelivery",
    "watcher_sync.backoff": "Backoff",
    "watcher_sync.wire.envelopes": "UNDECODABLE_TYPE read_body read_document read_message undecodable",
    "watcher_sync.wire.json": "MAX_SIZE",
    "watcher_sync.reconcile.base": "Context FieldDifference Reconciler Report",
    "watcher_sync.reconcile.listing": "ListingReconciler UnreadableEntry read_entries",
    "watcher_sync.extensions.openstack.cloud.listing": (
        "CloudBadRequest CloudClient CloudError CloudRequestRefused OpenStackReconciler id_of pages resource"
    ),
    "watcher_sync.reconcile.capacity_provider": "CapacityError CapacityProvider HostCapacity ResourceInventory",
    "watcher_sync.extensions.log.base": (
        "CREATED ChangeTooLarge DELETED LogChange LogPosition LogPositions Outlet OutletDeposed OutletError SNAPSHOT "
        "SNAPSHOT_BEGIN SNAPSHOT_END UPDATED"
    ),
    "watcher_sync.extensions.log.formats": "CLOUDEVENTS CONTENT_TYPES DEBEZIUM Encode TYPE_PREFIX encoder_of type_of",
}

STABLE_NAMES: Final[Mapping[str, frozenset[str]]] = {m: frozenset(names.split()) for m, names in _NAMES.items()}
"""Module -> the names that a plugin may import from it."""

TEST_MODULES: Final = frozenset(
    {
        "watcher_sync.testing.comparison",
        "watcher_sync.testing.dcm",
        "watcher_sync.testing.disorder",
        "watcher_sync.testing.kubernetes",
        "watcher_sync.testing.nova",
        "watcher_sync.testing.openstack",
        "watcher_sync.testing.playing",
        "watcher_sync.testing.poison",
        "watcher_sync.testing.stable_imports",
    }
)
"""Modules and packages that the tests of a plugin may import, with all their public names."""


def assert_stable_imports(folder: Path) -> None:
    """Check each Python file of a folder.

    :param folder: of the package, or of several.
    :raises AssertionError: a file imports something else of watcher_sync; names each file, line and name.
    """
    found = [f"{path}:{line}: {problem}" for path in sorted(folder.rglob("*.py")) for line, problem in unstable(path)]
    assert not found, "a plugin imports names of the stable interface only:\n" + "\n".join(found)


def unstable(path: Path) -> Iterator[tuple[int, str]]:
    """The imports of a file that are not of the stable interface: line, and what is wrong."""
    tree = ast.parse(path.read_text())
    modules: dict[str, str] = {}
    """Local name -> the module of the interface that it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name) and not _is_for_tests(alias.name):
                    yield node.lineno, f"import {alias.name}: import its names with from"
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in STABLE_NAMES:
                    modules[alias.asname or alias.name] = whole
                elif problem := _problem(node.module or "", alias.name):
                    yield node.lineno, problem
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                if problem := _problem(modules[name], attribute):
                    yield node.lineno, problem


def _problem(module: str, name: str) -> str:
    """Why a name may not be imported; empty: it may."""
    if name in STABLE_NAMES.get(module, ()):
        return ""
    if (_is_for_tests(module) or f"{module}.{name}" in TEST_MODULES) and not name.startswith("_"):
        return ""
    return f"{module}.{name} is internal"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "watcher_sync"


def _is_for_tests(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in TEST_MODULES)
