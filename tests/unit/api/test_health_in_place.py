# SPDX-License-Identifier: Apache-2.0
"""The health check answers before authentication, at its one path."""

from __future__ import annotations

from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application


def test_the_health_check_needs_no_token_and_answers_at_its_path_only(conf, store, problem):
    conf.set_override("auth_strategy", "keystone", group="api")
    client = Client(make_application(conf, store))
    assert client.simulate_get("/healthcheck", remote_addr="192.0.2.7").status_code == 200
    problem(client.simulate_get("/v1/instances"), 401)
    problem(client.simulate_get("/healthcheck/more"), 404)
