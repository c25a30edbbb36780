# SPDX-License-Identifier: Apache-2.0
"""An API of watcher_sync over HTTP with a small cloud in it, and a Watcher that is configured for it."""

from __future__ import annotations

from collections.abc import Iterator

import auditing
import pytest
from oslo_config import cfg
from served import Site


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    """A cloud behind an API."""
    site = Site(tmp_path)
    site.fill()
    yield site
    site.close()


@pytest.fixture
def watcher(site):
    """Watcher, configured for the API without tokens."""
    auditing.forget_collectors()
    auditing.configure(auth_strategy="noauth", endpoint=site.url)
    yield
    auditing.forget_collectors()
    cfg.CONF.reset()
