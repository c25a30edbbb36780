# SPDX-License-Identifier: Apache-2.0
"""The generated references are complete: every operation, command, option and field type."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from watcher_sync.conf import opts
from watcher_sync.storage.database import types

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "doc" / "source" / "reference"


def extension(name):
    """A module of ``doc/ext``, found as Sphinx finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "doc" / "ext"))
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def rest():
    return extension("watcher_sync_rest")


def test_every_operation_of_the_api_is_on_the_page(rest):
    document = rest.openapi_document()
    page = "\n".join(rest.page_lines(document))
    assert "\\`" not in page, "a literal is shown with its quotes"
    plurals = {kind.plural for kind in rest.load_kinds().values()}
    for path, methods in document["paths"].items():
        first = path.removeprefix("/v1/").partition("/")[0]
        for method in methods:
            names = {path} | ({path.replace(first, "{kinds}", 1)} if first in plurals else set())
            headings = [f"{method.upper()} {name}\n~" for name in names]
            assert any(heading in page for heading in headings), (method, path)


def test_an_operation_shows_its_parameters_its_body_and_its_answers(rest):
    document = rest.openapi_document()
    path = "/v1/service_type_instances"
    text = "\n".join(rest.operation_lines(path, "post", document["paths"][path]["post"]))
    assert ":Policy: ``service_type_instances:create``" in text
    assert "   * - ``service_type``\n     - string" in text
    assert "   * - ``409``" in text


def test_the_document_needs_no_plugin_and_is_the_one_that_is_served(rest, tmp_path):
    assert rest.openapi_document()["openapi"] == "3.1.0"
    assert "/v1/instances/{entity_id}/history" in rest.openapi_document()["paths"]


def test_every_command_of_the_client_is_in_the_reference():
    page = (REFERENCE / "command-line.rst").read_text()
    assert ".. autoprogram-cliff:: openstack.watcher_sync.v1\n" in page
    assert ":command:" not in page


def test_every_option_of_ours_is_shown():
    text = (REFERENCE / "configuration.rst").read_text()
    assert ".. show-options:: watcher_sync" in text
    namespaces = {entry.name for entry in importlib.metadata.entry_points(group="oslo.config.opts")}
    assert "watcher_sync" in namespaces
    assert opts.list_opts()


def test_every_command_of_the_server_is_in_the_reference():
    text = "\n".join(extension("watcher_sync_registry").manage_lines())
    for words in ("db_sync", "reconcile", "quarantine", "handlers"):
        assert f"``watcher-sync-manage {words}``" in text
    for option in (
        "--allow-deletes",
        "--contract",
        "--source SOURCE",
        "list|show|replay|drop",
        "-f, --format json|table",
    ):
        assert f"``{option}``" in text
    assert "None" not in text


def test_every_type_of_a_column_is_a_type_of_a_field():
    registry = extension("watcher_sync_registry")
    fields = [
        next(iter(registry.fields_of(type("E", (), {"__annotations__": {"f": t}})))) for *_, t in registry.FIELD_TYPES
    ]
    assert {field.python for field in fields} == {str, *types._TYPES}
    text = "\n".join(registry.field_type_lines())
    assert "``VARCHAR(255)``" in text
    assert "``BIGINT``" in text
