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
