# SPDX-License-Identifier: Apache-2.0
"""No two classes of the package have one name, so that a name says which one is meant.

:data:`REPEATED` has the names that still do. It only gets shorter.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import watcher_sync

ROOT = Path(watcher_sync.__file__).parent

REPEATED = frozenset(
    [
        "Aggregate",
        "Answer",
        "ApiError",
        "Call",
        "Cluster",
        "Condition",
        "ControlPlane",
        "Database",
        "Engine",
        "Event",
        "Fault",
        "Handler",
        "Host",
        "Inventory",
        "Metadata",
        "Migration",
        "Outcome",
        "Reference",
        "Request",
        "Server",
        "Service",
        "Snapshot",
        "Source",
        "Store",
        "Subscription",
        "Table",
        "View",
        "Watch",
        "WatchTopic",
    ]
)


def class_names() -> Counter[str]:
    """How many classes have each name, without those that protoc generates."""
    modules = [path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py")]
    trees = (ast.parse(path.read_text()) for path in modules)
    return Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_no_name_is_repeated_but_those_that_are_known() -> None:
    repeated = {name for name, count in class_names().items() if count > 1}
    assert sorted(repeated - REPEATED) == []
    assert sorted(REPEATED - repeated) == [], "remove these from REPEATED"
