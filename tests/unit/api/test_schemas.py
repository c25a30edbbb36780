# SPDX-License-Identifier: Apache-2.0
"""``/v1/schemas``: each schema of published messages, at the path that the messages name."""

from __future__ import annotations

import datetime
import json

import jsonschema

from watcher_sync.extensions.log.base import LogChange
from watcher_sync.extensions.log.formats import cloud_event
from watcher_sync.testing.kinds import builtin_kinds


def test_the_schema_that_a_message_names_is_there_and_fits_the_message(client):
    kind = builtin_kinds()["instance"]
    change = LogChange(
        partition="p",
        epoch="e",
        seq=1,
        change="created",
        kind=kind.name,
        id="1",
        time=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        after=kind.to_json(kind.cls(id="1")),
    )
    message = json.loads(cloud_event(change))
    schema = client.simulate_get(message["dataschema"]).json
    assert schema["$id"] == message["dataschema"]
    jsonschema.Draft202012Validator(schema).validate(message)


def test_the_list_names_each_kind_in_each_format_and_every_path_works(client):
    listed = client.simulate_get("/v1/schemas").json["schemas"]
    assert {(entry["format"], entry["kind"]) for entry in listed} == {
        (name, kind) for name in ("cloudevents", "debezium") for kind in builtin_kinds()
    }
    for entry in listed:
        schema = client.simulate_get(entry["href"]).json
        assert entry["kind"] in schema["title"]
        jsonschema.Draft202012Validator.check_schema(schema)


def test_an_unknown_format_or_kind_has_no_schema(client, problem):
    problem(client.simulate_get("/v1/schemas/xml/instance"), 404)
    problem(client.simulate_get("/v1/schemas/cloudevents/unicorn"), 404)
