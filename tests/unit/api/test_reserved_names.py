# SPDX-License-Identifier: Apache-2.0
"""A plugin's kind can take no name that a table, a path or a parameter has."""

from __future__ import annotations

from watcher_sync.model.kinds import RESERVED_FIELDS, RESERVED_PLURALS


def test_the_tables_and_the_paths_of_the_api_are_reserved_plurals(client, store):
    paths = client.simulate_get("/openapi.json").json["paths"]
    own = {kind.plural for kind in store.kinds.values()}
    named = {path.split("/")[2] for path in paths if path.startswith("/v1/")}
    assert {*store.tables.metadata.tables, *named} - own == RESERVED_PLURALS


def test_the_parameters_of_lists_are_reserved_fields(client, store):
    paths = client.simulate_get("/openapi.json").json["paths"]
    found = set()
    for kind in store.kinds.values():
        parameters = {each["name"] for each in paths[f"/v1/{kind.plural}"]["get"]["parameters"]}
        found |= parameters - {"id", *kind.fields}
    assert found | {"seq"} == RESERVED_FIELDS
