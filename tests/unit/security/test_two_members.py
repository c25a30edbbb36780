# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""Two members walk all operations of the API: what belongs to the one is for the other as if it did not exist."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.security.callers import NODE, OWN, SERVER
from tests.unit.security.test_operations import TABLE, api, requested  # noqa: F401 - a fixture
from tests.unit.security.test_tenancy import answered

pytestmark = pytest.mark.slow

ID = re.compile(r"\{(?:entity_id|instance_id|operation_id)\}")
NAMED = ("watchtopics/{name}", "subscription/{name}")
"""Ends of templates whose names belong to a project."""
TOPIC = {"name": "same", "spec": {"filters": [{"group": "*", "kind": "*"}]}}


def ids_of(template: str, path: str) -> list[str]:
    """The ids of a path that belong to a project."""
    is_named = any(each in template for each in NAMED)
    pairs = zip(template.split("/"), path.split("/"), strict=True)
    return [found for part, found in pairs if ID.fullmatch(part) or (part == "{name}" and is_named)]


@pytest.mark.parametrize("head", [False, True])
def test_anothers_entity_gets_the_answer_that_none_gets_in_every_operation(api, head) -> None:
    compared = 0
    for operation in TABLE:
        method, path, more = requested(api, operation, "stranger")
        if head and method != "GET":
            continue
        template, nothing = operation.split()[1], str(uuid.uuid4())
        root = more.get("params", {}).get("root")
        found = [*ids_of(template, path), *([SERVER] if root else [])]
        if not found:
            continue
        other, none = "/".join(nothing if part in found else part for part in path.split("/")), dict(more)
        if root:
            none["params"] = {"root": f"instance/{nothing}"}
        answers = []
        for asked, given in ((path, more), (other, none)):
            result = api("stranger", "HEAD" if head else method, asked, **given)
            status, text = answered(result, nothing)
            for entity_id in found:
                text = re.sub(rf"\b{re.escape(entity_id)}\b", "ID", text)
            answers.append((status, text, result.headers.get("ETag"), result.headers.get("Location")))
        if answers[1][0] == 201:  # a new entity with an id that is taken: it may not be 409
            assert answers[0][0] == 404, operation
            continue
        assert answers[0] == answers[1], operation
        compared += 1
    assert compared > 20


def test_no_answer_to_a_member_has_a_mark_of_another_one(api) -> None:
    marks = [OWN, NODE, api.made("vnf_instances"), api.made("service_type_instances"), api.subscribed(SERVER)]
    marks.append(api.watched())
    for operation in TABLE:
        method, path, more = requested(api, operation, "stranger")
        result = api("stranger", method, path, **more)
        shown = f"{result.text}{result.headers}"
        assert not [mark for mark in marks if mark in shown and mark not in path], operation


def test_each_member_has_a_topic_of_one_name_and_learns_of_no_other(api) -> None:
    path = "/management/v1/watchtopics"
    for caller in ("member", "stranger"):
        assert api(caller, "POST", path, json=TOPIC).status_code == 201
        assert [topic["name"] for topic in api(caller, "GET", path).json].count("same") == 1
    shown = {caller: api(caller, "GET", f"{path}/same").json["metadata"]["id"] for caller in ("member", "stranger")}
    assert len(set(shown.values())) == 2
    assert api("stranger", "GET", f"{path}/{shown['member']}").status_code == 404
    assert api("stranger", "DELETE", f"{path}/same").status_code == 204
    assert api("member", "GET", f"{path}/same").json["metadata"]["id"] == shown["member"]
