# SPDX-License-Identifier: Apache-2.0
"""A server with an administrator and the readers of two projects."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from tests.functional.watch.clients import channel_to
from tests.functional.watch.serving import Serving, Tokens, admin, reader_of, serving
from tests.functional.webhooks.conftest import install as install
from tests.functional.webhooks.conftest import new_store as new_store
from tests.functional.webhooks.conftest import store as store
from watcher_sync.storage.writing.store import Store


@pytest.fixture
def tokens() -> Tokens:
    """The tokens admin, p and q."""
    return Tokens(admin=admin(), p=reader_of("p"), q=reader_of("q"))


@pytest.fixture
def site(store: Store, tokens: Tokens) -> Iterator[Serving]:
    """A server that serves."""
    with serving(store, tokens) as made:
        yield made


@pytest.fixture
def channel(site: Serving) -> Iterator[grpc.Channel]:
    """A connection to the server."""
    with channel_to(site.port) as made:
        yield made
