# SPDX-License-Identifier: Apache-2.0
"""Where no usable server answers, one is started for the run, and goes with it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.services import ensure as services
from tests.services.probes import why_unusable
from tests.services.servers import free_port


@pytest.mark.parametrize("service", ["nats", "postgresql", "mariadb"])
def test_a_server_that_is_not_there_is_started_for_the_run_only(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = services.DEFAULT_URLS[service]
    port = usual.rpartition(":")[2].partition("/")[0]
    monkeypatch.setitem(services.DEFAULT_URLS, service, usual.replace(port, str(free_port())))
    monkeypatch.delenv(services.VARIABLES[service], raising=False)
    with ExitStack() as stack:
        url = services.ensure(service, stack)
        assert why_unusable(service, url) is None
    assert why_unusable(service, url) is not None
