# SPDX-License-Identifier: Apache-2.0
"""Any text that a caller chooses is an answer of the API, alike on every database, and never an outage."""

from __future__ import annotations

import json
import urllib.parse
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from oslo_config import cfg

from tests.functional.storage.test_odd_texts import has_half, texts
from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.conf import opts
from watcher_sync.storage.writing.store import Store

MADE: Final = "/v1/service_type_instances"
READS: Final = (
    "/v1/instances?name={}",
    "/v1/instances?name=prefix:{}",
    "/v1/instances?name=in:{},x",
    "/v1/instances?metadata.{}=x",
    "/v1/instances?metadata.x={}",
    "/v1/instances?tags={}",
    "/v1/instances?marker={}",
    "/v1/instances/{}",
    "/v1/instances/{}/history",
    "/v1/search?q={}",
    "/v1/events?entity_id={}",
    "/v1/graph?root=instance/{}",
    "/v1/quarantine?reason={}",
    "/v1/drifts?source={}",
)
many = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def client(store: Store) -> Client:
    """The API over the store."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    return Client(make_application(conf, store))


@many
@example(text="\U0001f680")
@example(text="\0")
@given(text=texts.filter(lambda text: text.isprintable() or "\0" in text))
def test_a_text_that_is_nowhere_is_found_nowhere(client: Client, text: str) -> None:
    for template in READS:
        path, _, query = template.format(urllib.parse.quote(text, safe="", errors="replace")).partition("?")
        answer = client.simulate_get(path, query_string=query)
        assert answer.status_code in (200, 400, 404), (template, text, answer.text)
        assert "database" not in answer.text, (template, text, answer.text)


@many
@example(text="\U0001f680", name="\U0001f680")
@example(text="", name="n\ud800\udfff")
@given(text=texts, name=texts.map(lambda text: f"n{text}"))
def test_a_member_stores_any_text_or_is_refused_by_the_name_of_a_field(client: Client, text: str, name: str) -> None:
    body = {"service_type": "vm", "instance_name": name, "provider_name": "p", "spec": {text: [text]}}
    sent = json.dumps(body)
    answer = client.simulate_post(MADE, body=sent, headers={"Content-Type": "application/json"})
    if answer.status_code == 201:
        assert {field: answer.json[field] for field in body} == json.loads(sent)  # which joins the halves of a pair
        assert client.simulate_get(answer.headers["location"]).json == answer.json
    else:
        assert answer.status_code == 400, answer.text
        assert "\0" in name or has_half(name + text), answer.text
        assert "column" not in answer.text
