# SPDX-License-Identifier: Apache-2.0
"""An installation whose engine listens to a NATS server of the test's own, and the control plane's client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.functional.api.conftest import serve as serve
from tests.functional.engine.conftest import install as install
from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.services.servers import Server
from watcher_sync.testing.dcm import publisher as published


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    """DCM's client, with the stream made."""
    with dcm_of(own_nats.url) as client:
        client.make_stream()
        yield client


@pytest.fixture
def site(own_nats: Server, install: Callable[..., Installation]) -> Callable[..., Installation]:
    """site(url, ...): an installation that listens to the stream, its schema made."""

    def make(url: str, **options: object) -> Installation:
        source = {"source_dcm.driver": "nats_jetstream", "source_dcm.servers": own_nats.url}
        made = install(url, engine__enabled_sources="dcm", **options)
        made.options |= source
        made.upgrade()
        return made

    return make


@pytest.fixture
def warned_site(sqlite_url: str, site: Callable[..., Installation], dcm: Dcm) -> Installation:
    """An installation on SQLite that listens to a stream of agents' warnings, too."""
    dcm.make_stream("dcm-health", published.SUBJECT_HEALTH)
    made = site(sqlite_url)
    made.options |= {
        "engine.enabled_sources": "dcm, dcm_health",
        "source_dcm_health.driver": "nats_jetstream",
        "source_dcm_health.servers": made.options["source_dcm.servers"],
        "source_dcm_health.stream": "dcm-health",
        "source_dcm_health.subject": published.SUBJECT_HEALTH,
    }
    return made
