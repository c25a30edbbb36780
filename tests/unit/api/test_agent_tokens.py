# SPDX-License-Identifier: Apache-2.0
"""JWTs of agents in the REST API, beside Keystone and without it: the catch-up belongs to the caller of the stream."""

from __future__ import annotations

import time

import jwt
import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.conf import keystone
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.watch import bearer_tokens
from watcher_sync.extensions.watch.callers import make_authenticator
from watcher_sync.extensions.watch.stored import StoredTopics
from watcher_sync.testing.kinds import builtin_kinds

SECRET = "0123456789abcdef0123456789abcdef"
BASE = "/apis/management/v1/watchtopics"
LINK = "/management/v1/watchtopics/all"
TOPIC = {"name": "all", "spec": {"filters": [{"group": "*", "kind": "*"}]}}


@pytest.fixture(params=["keystone", "noauth"])
def client(request, conf, store, truth, tmp_path):
    (tmp_path / "key").write_text(SECRET)
    for name, value in (
        ("auth_strategy", "jwt"), ("jwt_key_files", [str(tmp_path / "key")]), ("jwt_algorithms", ["HS256"]),
        ("jwt_issuer", "us"),
    ):  # fmt: skip
        conf.set_override(name, value, group="outlet_watch")
    conf.set_override("auth_strategy", request.param, group="api")
    keystone.register_opts(conf)
    conf.set_override("auth_url", "http://127.0.0.1:1/v3", group=keystone.GROUP)
    with AuthTokenFixture():
        yield Client(make_application(conf, store))


def token(*roles, project_id="p", secret=SECRET, **more):
    claims = {"sub": "agent", "project_id": project_id, "roles": list(roles), "exp": time.time() + 3600, "iss": "us"}
    return jwt.encode({name: value for name, value in (claims | more).items() if value is not None}, secret, "HS256")


def bearer(text, **more):
    return {"Authorization": f"Bearer {text}", **more}


@pytest.mark.parametrize("claims", [{}, {"iss": "them"}, {"aud": "another service"}])
@pytest.mark.parametrize("unset", [None, ""])
def test_neither_the_api_nor_the_outlet_starts_with_jwts_of_any_issuer_for_any_audience(
    conf, store, client, unset, claims
):
    conf.set_override("jwt_issuer", unset, group="outlet_watch")
    conf.set_override("jwt_audience", unset, group="outlet_watch")
    for start in (lambda: make_application(conf, store), lambda: make_authenticator(conf, builtin_kinds())):
        with pytest.raises(ConfigError, match=r"\[outlet_watch\] jwt_issuer, jwt_audience: .*jwt_accept_any"):
            start()
    conf.set_override("jwt_accept_any", True, group="outlet_watch")
    assert make_authenticator(conf, builtin_kinds()).authenticate(token("admin", **claims)).user_id == "agent"
    anyone = Client(make_application(conf, store))
    assert anyone.simulate_get(BASE, headers=bearer(token("admin", **claims))).status_code == 200


@pytest.mark.parametrize("option", ["jwt_issuer", "jwt_audience"])
def test_an_issuer_or_an_audience_is_enough_and_tokens_of_others_are_refused(conf, store, client, option):
    conf.set_override("jwt_issuer", None, group="outlet_watch")
    conf.set_override(option, "us", group="outlet_watch")
    one = Client(make_application(conf, store))
    claim = option.removeprefix("jwt_")[:3]
    assert one.simulate_get(BASE, headers=bearer(token("admin", **{"iss": None, claim: "us"}))).status_code == 200
    for value in ("them", None):
        refused = one.simulate_get(BASE, headers=bearer(token("admin", **{claim: value})))
        assert refused.status_code == 401


def test_the_catch_up_of_a_jwt_is_that_of_the_stream_of_the_same_token(client, conf, store):
    sent = token("admin")
    assert client.simulate_post(BASE, json=TOPIC, headers=bearer(sent)).status_code == 201
    params = {"query": "sequenceID>0", "sort": "sequenceID,ASC", "pageSize": 7}
    events = client.simulate_get(f"/events{LINK}", params=params, headers=bearer(sent)).json
    assert len(events) == 7
    topics = StoredTopics(store)
    caller = make_authenticator(conf, builtin_kinds()).authenticate(sent)
    assert topics.last_served(topics.find(LINK, caller), caller) == events[-1]["metadata"]["sequenceID"]
    other = make_authenticator(conf, builtin_kinds()).authenticate(token("admin", sub="other"))
    assert topics.last_served(topics.find(LINK, other), other) is None


@pytest.mark.parametrize(
    "sent",
    [token("admin", secret="x" * 32), token("admin", exp=1), "nonsense"],
    ids=["another secret", "expired", "no token"],
)
def test_a_bad_jwt_is_401(client, sent):
    assert client.simulate_get(BASE, headers=bearer(sent)).status_code == 401


def test_headers_add_nothing_to_the_claims_of_a_jwt(client):
    forged = {"X-Roles": "admin", "X-Identity-Status": "Confirmed", "X-Project-Id": "q", "X-User-Id": "root"}
    client.simulate_post(BASE, json=TOPIC, headers=bearer(token("member", project_id="q")))
    seen = bearer(token("reader"), **forged)
    assert client.simulate_post(BASE, json=TOPIC | {"name": "mine"}, headers=seen).status_code == 403
    assert client.simulate_get(f"{BASE}/all", headers=seen).status_code == 404
    assert client.simulate_get(BASE, headers=seen).json == []


def test_a_forged_identity_does_not_reach_the_audit(client, conf):
    reached = []
    application = bearer_tokens.wrap(lambda environ, _: reached.append(environ) or [], None, conf)
    forged = {"HTTP_X_ROLES": "admin", "HTTP_X_USER_NAME": "root", "HTTP_X_IDENTITY_STATUS": "Confirmed"}
    application({"PATH_INFO": BASE, "HTTP_AUTHORIZATION": f"Bearer {token('reader')}", **forged}, None)
    assert len(reached) == 1
    assert forged.keys().isdisjoint(reached[0])


def test_a_jwt_is_no_token_on_the_paths_of_others(client, conf):
    headers = bearer(token("admin"))
    expected = 401 if conf.api.auth_strategy == "keystone" else 200
    assert client.simulate_get("/v1/instances", headers=headers).status_code == expected
    assert client.simulate_get("/apis/v1/instances/none", headers=headers).status_code == 404
