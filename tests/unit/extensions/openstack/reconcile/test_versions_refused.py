# SPDX-License-Identifier: Apache-2.0
"""A Keystone, or a gateway before it, that refuses to name its versions without a token."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nova_sites import NovaSite
from tests.waiting import deadline
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.testing.openstack import Answer, ApiError, FakeOpenStack


@pytest.fixture
def gateway(cloud: FakeOpenStack) -> Iterator[FakeOpenStack]:
    """The cloud; its Keystone answers 401 to all requests but those for tokens."""
    cloud.fail(Answer(ApiError(401, "log in first")), service="identity", method="GET", count=None)
    return cloud


def asked(site: NovaSite) -> bytes | CloudError | None:
    """The answer to a request, or its failure; None: it does not end."""
    found: list[bytes | CloudError] = []

    def ask() -> None:
        try:
            found.append(site.cloud_account.client(time.monotonic() + deadline(60)).get("compute", "/servers/detail"))
        except CloudError as exc:
            found.append(exc)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(deadline(20))
    site.close()
    return found[0] if found else None


def test_the_version_in_the_url_counts_where_keystone_refuses_to_name_its_versions(gateway, tmp_path: Path):
    assert isinstance(asked(NovaSite(tmp_path, gateway)), bytes)


def test_a_url_without_a_version_fails_where_keystone_refuses_to_name_its_versions(gateway, tmp_path: Path):
    site = NovaSite(tmp_path, gateway, auth_url=f"{gateway.identity.url}/identity/v3")
    assert str(asked(site)).startswith("keystone: it does not name its versions: ")
