# SPDX-License-Identifier: Apache-2.0
"""The documentation's list of names for plugins is the interface: neither it nor the modules grow without the other."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from watcher_sync.testing.stable_imports import STABLE_NAMES, TEST_MODULES, assert_stable_imports

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "doc" / "source" / "contributor" / "plugin-interface.rst"

INTERNAL = {
    "watcher_sync.events": {"KNOWN_BEFORE", "PartialPayload", "TraceContext"},
    "watcher_sync.exceptions": {
        "DatabaseUnavailable",
        "EntitiesLeased",
        "FollowedEntity",
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
        "StatementTooLong",
        "StorageError",
        "SyncHeldBack",
        "TransactionConflict",
        "UNAUTHORISED",
    },
    "watcher_sync.extensions.dcm.handler.service_types": {
        "BUILTIN",
        "NAMESPACE",
        "OURS",
        "ServiceTypes",
        "load_service_types",
    },
    "watcher_sync.model.changes": {
        "ABSENT",
        "FOLLOWED",
        "WRITTEN_HERE",
        "base_of",
        "check_id",
        "check_key",
        "is_after",
        "is_unicode",
    },
    "watcher_sync.extension": {"GROUP", "Wsgi", "failures", "gather", "load_extensions", "LOG"},
    "watcher_sync.api.http.bodies": {"read_bytes", "read_body"},
    "watcher_sync.assembly.store": {"LOG", "open_store_of_server", "usable_store"},
    "watcher_sync.api.http.operation": {
        "JSON",
        "REPEATS",
        "Repeated",
        "RequestMiddleware",
        "Responder",
        "RestOperation",
    },
    "watcher_sync.api.http.problems": {
        "FieldProblem",
        "LOG",
        "MEDIA_TYPE",
        "SCHEMA",
        "install",
        "lease_conflict",
        "wsgi_answer",
    },
    "watcher_sync.api.http.rules": {
        "ADMIN_ONLY_FIELDS",
        "ADMIN_OR_SERVICE",
        "ALL_PROJECTS",
        "SCOPES",
        "base_rules",
        "rules_of",
    },
    "watcher_sync.extensions.log.base": {"LogRefused"},
    "watcher_sync.extensions.log.formats": {"cause_of", "cloud_event", "debezium", "omitted_of"},
    "watcher_sync.model.scopes": {"DeclaresScopes", "AFTER_SITE", "NO_SITES", "prefix_of", "require_own"},
    "watcher_sync.model.view": {"ModelReader", "not_declared"},
    "watcher_sync.reconcile.base": {"utc_now"},
    "watcher_sync.sources.base": {"GapTotal", "Gaps", "LOG", "StateLog"},
    "watcher_sync.sources.redelivery": {"LOG"},
    "watcher_sync.backoff": {"doubled"},
    "watcher_sync.handlers.sortable": {"UTC", "check_times"},
    "watcher_sync.wire.envelopes": {"read_cloud_event", "text_of", "unread"},
    "watcher_sync.wire.json": {"BadJson", "HalfPair", "MAX_DEPTH", "check_tree", "decode", "join", "with_whole_pairs"},
    "watcher_sync.model.kinds": {
        "RESERVED_FIELDS",
        "RESERVED_PLURALS",
        "MAX_INDEXED_CHARS",
        "PROJECT_FIELD",
        "Field",
        "Kind",
        "Kinds",
        "project_of",
    },
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


NAMES = sorted((module, name) for module, names in documented().items() for name in names)


def docstring_of(module: str, name: str) -> str | None:
    """The text below a class, a function or a value, where it is defined."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found) if found == name:
                return ast.get_docstring(node)
            case ast.ImportFrom(module=other, names=names) if any(each.asname == name for each in names):
                return docstring_of(other or "", name)
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        return text
    return None


def test_the_page_lists_every_module_that_plugins_need() -> None:
    assert len(documented()) == 27
    assert len(_TEST_MODULE.findall(PAGE.read_text())) == 9


def test_the_check_of_imports_has_the_names_of_the_page() -> None:
    assert {module: set(names) for module, names in STABLE_NAMES.items()} == documented()
    assert sorted(TEST_MODULES) == _TEST_MODULE.findall(PAGE.read_text())


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_documented_name_has_a_docstring(module: str, name: str) -> None:
    assert docstring_of(module, name), f"{module}.{name}"


@pytest.mark.parametrize("folder", sorted((ROOT / "doc" / "examples").iterdir()), ids=lambda folder: folder.name)
def test_the_examples_import_names_of_the_page_only(folder: Path) -> None:
    assert list(folder.rglob("*.py"))
    assert_stable_imports(folder)


@pytest.mark.parametrize(
    "package",
    sorted(file.parent for file in ROOT.glob("contrib/*/watcher_sync_*/__init__.py")),
    ids=lambda folder: folder.name,
)
def test_the_distributions_of_others_import_names_of_the_page_only(package: Path) -> None:
    assert list(package.rglob("*.py"))
    assert_stable_imports(package)


def test_the_guide_names_nothing_that_the_page_does_not_list() -> None:
    text = (PAGE.parent / "plugins.rst").read_text()
    named = re.findall(r"(?:::|:class:`|:func:`|:exc:`)[ ~]*(watcher_sync\.[\w.]+)\.(\w+)", text)
    assert len(named) > 30
    modules = {f"{module}.{name}" for module, name in named} & set(documented())
    unlisted = {f"{m}.{n}" for m, n in named if n not in documented().get(m, set())} - modules
    assert not unlisted


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("from watcher_sync.events import Event", ""),
        ("from watcher_sync.events import TraceContext", "watcher_sync.events.TraceContext is internal"),
        ("from watcher_sync.engine.engine import Engine", "watcher_sync.engine.engine.Engine is internal"),
        ("from watcher_sync.handlers import sortable\nsortable.digits", ""),
        (
            "from watcher_sync.handlers import sortable\nsortable._EPOCH",
            "handlers.sortable._EPOCH is internal",
        ),
        (
            "from watcher_sync.extensions.openstack import handler",
            "watcher_sync.extensions.openstack.handler is internal",
        ),
        ("import watcher_sync.events", "import watcher_sync.events: import its names with from"),
        ("from watcher_sync.testing.dcm import publisher", ""),
        ("from watcher_sync.testing.dcm.publisher import status", ""),
        (
            "from watcher_sync.testing.dcm.publisher import _sent",
            "testing.dcm.publisher._sent is internal",
        ),
        ("from watcher_sync.testing import playing", ""),
        ("from watcher_sync.testing import ledger", "watcher_sync.testing.ledger is internal"),
        ("from watcher_sync_site.engine import anything", ""),
    ],
)
def test_an_import_of_something_internal_is_named_with_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "plugin.py").write_text(f"\n{line}\n")
    if not problem:
        assert_stable_imports(tmp_path)
        return
    with pytest.raises(AssertionError, match=re.escape(problem)) as caught:
        assert_stable_imports(tmp_path)
    assert f"plugin.py:{2 + line.count(chr(10))}: " in str(caught.value)


@pytest.mark.parametrize(("module", "name"), NAMES)
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
