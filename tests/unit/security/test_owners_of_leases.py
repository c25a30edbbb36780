# SPDX-License-Identifier: Apache-2.0
"""An operation lease belongs to a user of a project, and only who has its secret uses it."""

from __future__ import annotations

import base64

import pytest
import sqlalchemy as sa

from tests.unit.api import conftest as api
from tests.unit.api import test_keystone as keystone
from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH, demo
from tests.unit.security.callers import configured

pytestmark = pytest.mark.slow

conf = api.conf
store = api.store
problem = api.problem
tokens = keystone.tokens

OPERATIONS = f"{PATH}/a/operations"
SCALE = {"operation": "SCALE", "holder": "lcm-1"}
OURS, THEIRS = "a" * 32, "b" * 32


class Caller:
    """Sends requests with the token of one user."""

    def __init__(self, client, headers):
        self._client, self._headers = client, headers

    def ask(self, method, path, secret=None, **kwargs):
        headers = {**self._headers, **kwargs.pop("headers", {})}
        if secret is not None:
            headers["Operation-Secret"] = secret
        return self._client.simulate_request(method, path, headers=headers, **kwargs)

    def begin(self, body=SCALE):
        answer = self.ask("POST", OPERATIONS, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json


@pytest.fixture
def client(conf, store, tokens):
    conf.set_override("auth_strategy", "keystone", group="api")
    configured(conf, {"default": OURS})
    return api.Client(api.make_application(conf, store))


@pytest.fixture
def ours(client, tokens):
    """A member of the project that has an instance."""
    caller = Caller(client, tokens("member", "reader", project_id=OURS))
    assert caller.ask("PUT", f"{PATH}/a", json=DEMO).status_code == 201
    return caller


@pytest.fixture
def theirs(client, tokens):
    """A member of another project."""
    return Caller(client, tokens("member", "reader", project_id=THEIRS))


@pytest.fixture
def colleague(client, tokens):
    """Another user of the project that has the instance."""
    return Caller(client, tokens("member", "reader", project_id=OURS, user_id="c" * 32))


@pytest.fixture
def admin(client, tokens):
    return Caller(client, tokens("admin", "member", "reader", project_id="e" * 32, user_id="d" * 32))


def test_the_secret_is_random_and_is_shown_once(ours, store):
    lease = ours.begin()
    assert len(base64.urlsafe_b64decode(lease["secret"] + "=")) == 32
    path = f"{OPERATIONS}/{lease['id']}"
    beaten = ours.ask("PUT", path, lease["secret"])
    answers = [beaten, ours.ask("GET", path), ours.ask("GET", OPERATIONS), ours.ask("POST", OPERATIONS, json=SCALE)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 409]
    for answer in answers:
        assert lease["secret"] not in answer.text
        assert "secret" not in answer.text
    with store.database.connect() as connection:
        rows = [
            *connection.execute(store.tables.operation_leases.select()).mappings(),
            *connection.execute(store.tables.operations.select()).mappings(),
        ]
    assert len(rows) == 2
    assert lease["secret"] not in repr(rows)
    assert {(row["user_id"], row["project_id"]) for row in rows} == {("u" * 32, OURS)}
    ours.ask("DELETE", path, lease["secret"])
    assert ours.begin()["secret"] != lease["secret"]


def test_another_project_neither_extends_nor_ends_the_operation(ours, theirs, problem):
    lease = ours.begin()
    path = f"{OPERATIONS}/{lease['id']}"
    for secret in (None, "guessed", lease["secret"]):
        problem(theirs.ask("PUT", path, secret, json={"token": lease["token"]}), 404)
        problem(theirs.ask("DELETE", path, secret), 404)
        problem(theirs.ask("DELETE", path, secret, query_string=f"token={lease['token']}"), 404)
    assert ours.ask("GET", path).json["state"] == "RUNNING"
    assert ours.ask("PUT", path, lease["secret"]).status_code == 200


def test_another_project_does_not_write_with_the_token(ours, theirs):
    lease = ours.begin()
    for secret in (None, "guessed", lease["secret"]):
        headers = {"Operation-Token": str(lease["token"])}
        for method, body in (("PUT", demo(name="theirs")), ("DELETE", None)):
            refused = theirs.ask(method, f"{PATH}/a", secret, json=body, headers=headers)
            assert refused.status_code in (403, 404), refused.text
    assert ours.ask("GET", f"{PATH}/a").json["name"] == DEMO["name"]


def test_id_and_token_alone_are_worth_nothing_in_the_own_project(ours, colleague, problem):
    lease = ours.begin()
    path, token = f"{OPERATIONS}/{lease['id']}", {"Operation-Token": str(lease["token"])}
    for caller, secret in (
        (ours, None),
        (ours, ""),
        (ours, "guessed"),
        (colleague, None),
        (colleague, lease["secret"]),
    ):
        for answer in (
            caller.ask("PUT", path, secret),
            caller.ask("DELETE", path, secret),
            caller.ask("PUT", f"{PATH}/a", secret, json=demo(name="x"), headers=token),
            caller.ask("DELETE", f"{PATH}/a", secret, headers=token),
        ):
            assert "token of this" not in problem(answer, 403)["detail"]
    assert ours.ask("PUT", f"{PATH}/a", lease["secret"], json=demo(name="x"), headers=token).status_code == 200
    assert ours.ask("DELETE", path, lease["secret"]).status_code == 204


def test_a_wrong_secret_is_refused_before_anything_of_the_operation_is_disclosed(ours, problem):
    lease = ours.begin()
    path = f"{OPERATIONS}/{lease['id']}"
    wrong = problem(ours.ask("PUT", path, "guessed", json={"token": lease["token"] + 1}), 403)
    assert ours.ask("DELETE", path, lease["secret"]).status_code == 204
    assert problem(ours.ask("PUT", path, "guessed"), 403)["detail"] == wrong["detail"]
    problem(ours.ask("DELETE", path, "guessed"), 403)
    problem(ours.ask("PUT", path, lease["secret"]), 409)
    assert ours.ask("DELETE", path, lease["secret"]).status_code == 204


def test_an_administrator_ends_an_operation_only_by_force_and_no_other_caller_does(ours, theirs, admin, problem):
    lease = ours.begin()
    path = f"{OPERATIONS}/{lease['id']}"
    assert theirs.ask("DELETE", path, query_string="force=true").status_code in (403, 404)
    problem(ours.ask("DELETE", path, query_string="force=true"), 403)
    assert admin.ask("DELETE", path).status_code in (403, 404)
    assert admin.ask("PUT", path).status_code in (403, 404)
    assert admin.ask("DELETE", path, query_string="force=true&state=FAILED").status_code == 204
    assert ours.ask("GET", path).json["state"] == "FAILED"
    problem(ours.ask("PUT", path, lease["secret"]), 409)


def test_the_owner_is_shown_to_its_own_project(ours, client, tokens):
    lease = ours.begin()
    shown = ours.ask("GET", f"{OPERATIONS}/{lease['id']}").json
    assert (shown["user_id"], shown["project_id"]) == ("u" * 32, OURS)
    reader = Caller(client, tokens("reader", project_id=THEIRS))
    for answer in (reader.ask("GET", OPERATIONS), reader.ask("GET", f"{OPERATIONS}/{lease['id']}")):
        assert "u" * 32 not in answer.text
        assert OURS not in answer.text


def test_a_conflict_names_the_holder_and_no_secret(ours, colleague, problem):
    lease = ours.begin()
    document = problem(colleague.ask("POST", OPERATIONS, json=SCALE), 409)
    assert {"holder", "operation", "since", "expires_at"} <= set(document)
    assert not {"id", "token", "secret"} & set(document)
    assert lease["secret"] not in str(document)


def test_without_authentication_the_secret_is_needed_all_the_same(conf, store, problem):
    client = Caller(api.Client(api.make_application(conf, store)), {})
    client.ask("PUT", f"{PATH}/a", json=DEMO)
    lease = client.begin()
    path = f"{OPERATIONS}/{lease['id']}"
    problem(client.ask("PUT", path), 403)
    problem(client.ask("DELETE", path, "guessed"), 403)
    assert client.ask("GET", path).json["user_id"] == "noauth"
    assert client.ask("PUT", path, lease["secret"]).status_code == 200
    assert client.ask("DELETE", path, lease["secret"]).status_code == 204


def lease_tokens(store):
    with store.database.connect() as connection:
        return list(connection.execute(sa.select(store.tables.operation_leases.c.token)).scalars())


def test_refused_writes_of_instances_that_do_not_exist_leave_no_lease(ours, store):
    assert lease_tokens(store) == [1]
    for number in range(5):
        path, match = f"{PATH}/new-{number}", {"If-Match": '"1"'}
        assert ours.ask("PUT", path, json=DEMO, headers=match).status_code == 412
        assert ours.ask("PUT", path, json=demo(project_id=THEIRS)).status_code in (403, 404)
    assert lease_tokens(store) == [1], "one row: that of the instance that exists"


def test_a_registration_over_the_quota_leaves_no_lease(conf, store, ours, tokens, problem):
    conf.set_override("quota_vnf_instances", 1, group="api")
    limited = Caller(api.Client(api.make_application(conf, store)), tokens("member", project_id=OURS))
    for number in range(3):
        problem(limited.ask("PUT", f"{PATH}/new-{number}", json=DEMO), 403)
    assert lease_tokens(store) == [1]


def test_the_token_of_an_instance_that_exists_does_not_restart_after_refused_writes(ours, store):
    made = ours.ask("POST", PATH, json=DEMO).json["id"]
    for _ in range(3):
        assert ours.ask("PUT", f"{PATH}/{made}", json=DEMO, headers={"If-Match": '"0"'}).status_code == 412
    assert sorted(lease_tokens(store)) == [1, 3]
