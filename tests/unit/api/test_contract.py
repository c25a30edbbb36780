# SPDX-License-Identifier: Apache-2.0
"""The application's answers match its OpenAPI document: schemathesis sends requests and checks the answers."""

from __future__ import annotations

import os

import hypothesis
import pytest
import schemathesis
from keystonemiddleware.fixture import AuthTokenFixture
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.syncing import syncing_with
from tests.unit.extensions.vnf.api.test_sync import Syncing
from tests.unit.security.callers import Api
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event

pytestmark = pytest.mark.slow

SENSE = (
    "POST /v1/vnf_instances",
    "PUT /v1/vnf_instances/{entity_id}",
    "GET /v1/vnf_instances",
    "GET /v1/vnf_instances/{entity_id}",
    "GET /vnflcm/v2/vnf_instances",
    "GET /vnflcm/v2/vnf_instances/{entity_id}",
    "GET /events/management/{version}/watchtopics/{name}",
    "GET /v1/states",
    "GET /v1/diff",
)
"""What is asked here has to make sense as a whole, which no schema can say: min, max and levels that fit, a filter.
Also: one form of paging, and a position that the journal has."""

POSITIONS = {"as_of", "epoch", "marker"}
"""Parameters of many operations that have to name what the journal has, or a value of the field in ``sort``."""

EXAMPLES = int(os.environ.get("WATCHER_SYNC_TEST_EXAMPLES", "4"))
"""Requests for each operation, half of them wrong on purpose; more in the environment ``contract``."""


def on_this_machine(application):
    """The application as a client on the loopback interface reaches it."""

    def called(environ, start_response):
        environ |= {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
        return application(environ, start_response)

    return called


@pytest.fixture
def application(conf, store):
    """One that syncs: what cannot be done answers 503, which is none of the server's failures."""
    return make_application(conf, store, extensions=syncing_with(Syncing(store)))


@pytest.fixture
def api(application, truth, cycle):
    """The operations that do not stream, over an application with something in it."""
    return described(application, cycle)


def described(application, cycle):
    cycle.run(Batch(events=[Event(id="1", type="undecodable", source="nova", data=b"{", undecodable="no JSON")]))
    schema = schemathesis.openapi.from_wsgi("/openapi.json", on_this_machine(application))
    return schema.exclude(path="/v1/events", method="GET")


def test_every_answer_is_as_the_document_says(api):
    hold_all(api)


@pytest.mark.rare
@pytest.mark.parametrize("caller", ["member", "admin"])
def test_with_tenancy_every_answer_is_as_the_document_says(conf, store, truth, cycle, caller):
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        hold_all(described(api.application, api.cycle), headers=api.headers(caller))


def hold_all(api, headers=None):
    tried = []
    failures = []
    for result in api.get_all_operations():
        operation = result.ok()
        tried.append(operation.label)
        try:
            hold(operation, headers)
        except Exception as exc:  # noqa: BLE001 - the test tries all operations before it fails
            failures.append(f"{operation.label}: {exc}")
    assert not failures, "\n\n".join(failures)
    assert "PUT /v1/service_type_instances/{entity_id}" in tried
    assert "PUT /v1/vnf_instances/{entity_id}/operations/{operation_id}" in tried
    assert "POST /v1/vnf_instances/{entity_id}/sync" in tried
    assert set(SENSE) < set(tried)
    assert len(tried) > 20


def hold(operation, headers=None):
    """Valid and invalid requests of one operation, and every check of the answers.

    The caller's headers are given to the strategy: a request that is wrong without its token would be right with it.
    """
    given = {"headers": headers} if headers else {}

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        derandomize=True,
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(
        case=hypothesis.strategies.one_of(*(operation.as_strategy(generation_mode=m, **given) for m in GenerationMode))
    )
    def each(case):
        makes_sense = operation.label not in SENSE and POSITIONS.isdisjoint(case.query or {})
        excluded = [] if makes_sense else [positive_data_acceptance]
        case.call_and_validate(headers=headers, excluded_checks=excluded)

    each()
