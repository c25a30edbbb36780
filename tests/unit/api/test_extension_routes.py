# SPDX-License-Identifier: Apache-2.0
"""An extension brings resources, their rules of the policy, and the problems of its exceptions."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Client
from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_list import EntityList
from watcher_sync.api.http.operation import Answer, Rule, operation
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER, PROJECT_READER
from watcher_sync.assembly.api import make_application
from watcher_sync.exceptions import PluginConflict
from watcher_sync.extension import Extension, failures, load_extensions


class OutOfPhase(Exception):
    """A failure of a stranger's resource."""


class Moons:
    """``/v1/moons``."""

    @operation(
        summary="List the moons",
        rule=Rule("moons:list", PROJECT_READER),
        responses={200: Answer({"type": "object"})},
        tag="moons",
    )
    def on_get(self, call):
        """Fails."""
        raise OutOfPhase("new moon")


class Lunar(Extension):
    """A stranger's extension."""

    def routes(self, api):
        return [("/v1/moons", Moons()), ("/lunar/*", self.refuse)]

    def refuse(self, req, resp, **more):
        """Answers for what is not offered."""
        raise Problem(501, "No moon is offered")

    def problems(self):
        return {OutOfPhase: lambda error: Problem(409, f"Out of phase: {error}")}


class Routes(Extension):
    """An extension with one route."""

    def __init__(self, template, make):
        self._template, self._make = template, make

    def routes(self, api):
        return [(self._template, self._make(api))]


def served(conf, store, **more):
    """A client of an API with more extensions than are installed."""
    return Client(make_application(conf, store, extensions={**load_extensions(), **more}))


def test_a_noun_of_an_extension_has_its_rule_its_problem_and_its_place_in_the_document(conf, store, problem):
    client = served(conf, store, lunar=Lunar())
    assert problem(client.simulate_get("/v1/moons"), 409)["detail"] == "Out of phase: new moon"
    assert problem(client.simulate_get("/lunar/far/side"), 501)["detail"] == "No moon is offered"
    document = client.simulate_get("/openapi.json").json
    assert "moons:list" in str(document["paths"]["/v1/moons"]["get"])
    assert not [path for path in document["paths"] if "lunar" in path]


def test_the_policy_decides_about_the_noun_of_an_extension(conf, store, problem, tmp_path):
    served(conf, store)  # registers the options of the policy
    policy = tmp_path / "policy.yaml"
    policy.write_text('{"moons:list": "role:astronomer"}')
    conf.set_override("policy_file", str(policy), group="oslo_policy")
    assert "moons:list" in problem(served(conf, store, lunar=Lunar()).simulate_get("/v1/moons"), 403)["detail"]


def test_an_extension_may_replace_the_list_of_a_kind_and_no_other_route(conf, store):
    class Quiet(EntityList):
        """A list without entities."""

        def answer_page(self, collection, call):
            call.answer({"quiet": True})

    mine = Routes("/v1/instances", lambda api: Quiet(Collection(api.service, api.service.kinds["instance"])))
    assert served(conf, store, mine=mine).simulate_get("/v1/instances").json == {"quiet": True}
    for template in ("/v1/sources", "/v1/subscriptions"):
        with pytest.raises(PluginConflict, match=template):
            served(conf, store, mine=Routes(template, lambda api: Moons()))


def test_an_extension_whose_routes_fail_leaves_the_others_alone(conf, store, caplog, problem):
    client = served(conf, store, broken=Routes("/v1/broken", lambda api: 1 / 0), lunar=Lunar())
    assert client.simulate_get("/v1/subscriptions").status_code == 200
    problem(client.simulate_get("/v1/moons"), 409)
    problem(client.simulate_get("/v1/broken"), 404)
    assert "The extension broken fails" in caplog.text
    assert failures.pop("broken") == "fails: ZeroDivisionError: division by zero"


class Undeclared:
    """A resource whose method is no operation."""

    def on_get(self, req, resp):
        """Never called."""


def with_rule(rule):
    """A resource with this rule."""

    class Ruled:
        on_get = operation(summary="x", rule=rule, responses={200: Answer(None)}, tag="x")(
            lambda self, call, **ids: None
        )

    return Ruled()


@pytest.mark.parametrize(
    ("template", "resource", "why"),
    [
        ("/v1/suns", Undeclared(), "GET /v1/suns is no operation"),
        ("suns", Moons(), "'suns' does not begin with /"),
        ("/v1/instances/{uuid}/suns", Moons(), "conflicts with another route"),
        ("/v1/suns/{id:moon}", Moons(), "Unknown converter"),
        ("/v1/suns", with_rule(Rule("suns:list", "role:cook", reason="x")), "no persona has the default 'role:cook'"),
        ("/v1/suns", with_rule(Rule("sources:list", PROJECT_READER)), "the rule sources:list has two defaults"),
    ],
)
def test_routes_that_the_api_cannot_serve_are_left_out_and_the_extension_is_named(
    conf, store, caplog, problem, template, resource, why
):
    client = served(conf, store, sunny=Routes(template, lambda api: resource), lunar=Lunar())
    problem(client.simulate_get("/v1/moons"), 409)
    problem(client.simulate_get("/v1/suns"), 404)
    assert why in failures.pop("sunny")
    assert "The extension sunny fails" in caplog.text


def test_of_two_extensions_that_contradict_each_other_the_second_is_left_out(conf, store, problem):
    read, system = with_rule(Rule("suns:list", PROJECT_READER)), with_rule(Rule("suns:list", ADMIN_OR_SYSTEM_READER))
    more = {
        "a": Routes("/v1/a", lambda api: read),
        "b": Routes("/v1/b", lambda api: system),
        "c": Routes("/v1/a/{one}/x", lambda api: read),
        "d": Routes("/v1/a/{other}/y", lambda api: read),
    }
    client = served(conf, store, **more)
    assert [client.simulate_get(f"/v1/{name}").status_code for name in "ab"] == [200, 404]
    assert "the rule suns:list has two defaults" in failures.pop("b")
    assert client.simulate_get("/v1/a/1/x").status_code == 200
    problem(client.simulate_get("/v1/a/1/y"), 404)
    assert "conflicts with another route" in failures.pop("d")
