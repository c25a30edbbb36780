# SPDX-License-Identifier: Apache-2.0
"""The documentation's list of names for plugins is the interface: neither it nor the modules grow without the other."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "doc" / "source" / "contributor" / "plugin-interface.rst"

INTERNAL = {
    "watcher_sync.events": {"KNOWN_BEFORE", "PartialPayload", "TraceContext"},
    "watcher_sync.exceptions": {
        "DatabaseUnavailable",
        "EntitiesLeased",
        "HeadMoved",
        "HistoryChanged",
        "Interrupted",
        "JournalPurged",
        "LeaseHeld",
        "LeaseLost",
        "NoSuchOperation",
        "OperationRunning",
        "ProofRefused",
        "QuotaReached",
        "ReplayRefused",
        "RowRefused",
        "described",
        "interrupts",
        "text_of",
        "SchemaMissing",
        "StaleToken",
        "StorageError",
        "SyncHeldBack",
        "TransactionConflict",
        "UNAUTHORISED",
    },
    "watcher_sync.handlers.dcm.service_types": {"BUILTIN", "NAMESPACE", "OURS", "ServiceTypes", "load_service_types"},
    "watcher_sync.model.changes": {"ABSENT", "WRITTEN_HERE", "check_id", "check_key", "is_after"},
    "watcher_sync.log.formats": {"cause_of", "cloud_event", "debezium"},
    "watcher_sync.model.scopes": {"DeclaresScopes"},
    "watcher_sync.model.view": {"ModelReader", "not_declared"},
    "watcher_sync.reconcile.base": {"utc_now"},
    "watcher_sync.sources.base": {"GapTotal", "Gaps"},
    "watcher_sync.model.kinds": {"MAX_INDEXED_CHARS", "PROJECT_FIELD", "Field", "Kind", "Kinds", "project_of"},
}
"""Public names of the same modules that are for the project itself."""

_MODULE = re.compile(r"^``(watcher_sync[\w.]*)``\n((?:   .+\n)+)", re.MULTILINE)
_TEST_MODULE = re.compile(r"^\* ``(watcher_sync\.testing[\w.]*)``$", re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Module -> the names that the page lists."""
    return {module: set(re.findall(r"``(\w+)``", names)) for module, names in _MODULE.findall(PAGE.read_text())}


def public_names(module: str) -> set[str]:
    """What a module defines, or imports in order to export it, under a name without an underscore."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    names: set[str] = set()
    for node in ast.parse(Path(spec.origin).read_text()).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                names.add(node.name)
            case ast.Assign():
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom():
                names.update(alias.asname for alias in node.names if alias.asname == alias.name)
    type_variables = {"E", "T"}
    return {name for name in names if not name.startswith("_")} - type_variables


def test_the_page_lists_every_module_that_plugins_need() -> None:
    assert len(documented()) == 14
    assert len(_TEST_MODULE.findall(PAGE.read_text())) == 7


@pytest.mark.parametrize(("module", "name"), sorted((m, n) for m, names in documented().items() for n in names))
def test_a_documented_name_can_be_imported_without_a_warning(module: str, name: str) -> None:
    assert vars(importlib.import_module(module))[name] is not None


@pytest.mark.parametrize("module", sorted(documented()))
def test_every_public_name_of_a_documented_module_is_either_on_the_page_or_internal(module: str) -> None:
    internal = INTERNAL.get(module, set())
    assert documented()[module] | internal == public_names(module)
    assert documented()[module] & internal == set()


@pytest.mark.parametrize("module", _TEST_MODULE.findall(PAGE.read_text()))
def test_a_documented_module_for_tests_can_be_imported(module: str) -> None:
    assert importlib.import_module(module).__doc__
