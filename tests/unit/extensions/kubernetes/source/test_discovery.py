# SPDX-License-Identifier: Apache-2.0
"""Discovery of a kind, where an API server answers with what none of Kubernetes does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from watcher_sync.extensions.kubernetes.source import discovery
from watcher_sync.extensions.kubernetes.source.connection import KubernetesError, TooLarge
from watcher_sync.extensions.kubernetes.source.lister_watcher import ListerWatcher
from watcher_sync.extensions.kubernetes.source.resources import Resource

GROUP = "/apis/a.example"
THING = Resource("a.example", "", "Thing")


class Documents:
    """Has a document for a few paths, and an empty list of resources for all others."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.paths: list[str] = []
        self._documents = documents

    def __call__(self, path: str) -> bytes:
        self.paths.append(path)
        return json.dumps(self._documents.get(path, {"resources": []})).encode()


def group(*versions: str) -> dict[str, Any]:
    return {"versions": [{"version": version} for version in versions]}


def test_a_group_with_more_versions_than_any_has_costs_one_request_and_is_named() -> None:
    read = Documents({GROUP: group(*(f"v{number}" for number in range(1000)))})
    with pytest.raises(KubernetesError) as caught:
        discovery.find(THING, read)
    assert str(caught.value) == f"discovery of {GROUP}: Expected `array` of length <= 64 - at `$.versions`"
    assert read.paths == [GROUP]


@pytest.mark.parametrize("version", ["", ".", "..", "v1/../../b.example/v1", "v1?x", "v1#x", "v%2e", "v" * 64, "v1\n"])
def test_a_version_that_would_change_the_path_is_not_asked_for(version: str) -> None:
    read = Documents({GROUP: group(version)})
    with pytest.raises(KubernetesError, match=f"^discovery of {GROUP}: .* is no version - at"):
        discovery.find(THING, read)
    assert read.paths == [GROUP]


@pytest.mark.parametrize("plural", ["", ".", "..", "things?watch=true", "things#x", "t%2e", "t" * 64, "things\n"])
def test_a_plural_that_would_change_the_path_is_refused(plural: str) -> None:
    entries = [{"name": "odd?/status", "kind": "Odd"}, {"name": plural, "kind": "Thing"}]
    read = Documents({GROUP: group("v1"), f"{GROUP}/v1": {"resources": entries}})
    reason = f"discovery of {GROUP}/v1: {plural[:63]!r} is not the plural of Thing"
    with pytest.raises(KubernetesError, match=f"^{re.escape(reason)}$"):
        discovery.find(THING, read)


def test_a_document_that_is_too_large_is_named() -> None:
    class Connection:
        def read(self, path: str, query: Any, *, max_bytes: int, **rest: Any) -> bytes:
            raise TooLarge(f"the answer has more than {max_bytes} bytes")

    reason = f"discovery of {GROUP}: the answer has more than {4 << 20} bytes"
    with pytest.raises(KubernetesError, match=f"^{reason}$"):
        ListerWatcher(Connection(), THING, None).discover()  # type: ignore[arg-type]
