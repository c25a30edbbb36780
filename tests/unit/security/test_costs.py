# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""The threat model says of each operation what bounds its work."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from tests.unit.security.test_parsers import operations  # noqa: F401 - a fixture
from watcher_sync.storage.writing.store import Store

PAGE = Path("doc/source/admin/security.rst")
OPERATION = re.compile(r"``((?:GET|POST|PUT|DELETE) [^`]+)``")


def section() -> str:
    text = PAGE.read_text()
    begin = text.index(".. _costs:")
    return text[begin : text.index(".. _parsers:")]


def shape(store: Store, method: str, path: str) -> str:
    """An operation as the page names it: all kinds are one."""
    plurals = "|".join(kind.plural for kind in store.kinds.values())
    return f"{method} {re.sub(f'/({plurals})(?=/|$)', '/{kinds}', path)}"


def test_each_operation_of_the_document_is_in_one_row_of_the_page(store, operations) -> None:
    declared = {shape(store, method, path) for method, path, _ in operations}
    named = OPERATION.findall(" ".join(section().split()))
    assert sorted(named) == sorted(declared)
