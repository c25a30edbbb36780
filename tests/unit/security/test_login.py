# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/login``: a token for user and password; no oracle, no trace of the password, no way round the limits."""

from __future__ import annotations

import datetime
import io
import ipaddress
import json
import logging
import threading

import pytest
from oslo_policy import policy
from oslo_service import backend

pytestmark = pytest.mark.slow

backend.init_backend(backend.BackendType.THREADING)

from tests.unit.api.conftest import Client  # noqa: E402
from tests.waiting import deadline, wait_until  # noqa: E402
from watcher_sync.api.edge.proxies import client_address  # noqa: E402
from watcher_sync.api.identity import login  # noqa: E402
from watcher_sync.api.identity.login import Credentials, KeystoneAddress, KeystoneFailed, Login  # noqa: E402
from watcher_sync.api.ui.login import MAX_BODY_BYTES, MAX_CONCURRENT  # noqa: E402
from watcher_sync.assembly.api import make_application  # noqa: E402
from watcher_sync.conf import keystone  # noqa: E402
from watcher_sync.conf.networks import NetworkText  # noqa: E402
from watcher_sync.testing.openstack import (  # noqa: E402
    Answer,
    ApiError,
    Cut,
    Do,
    FakeOpenStack,
    Garbage,
    forbidden,
    server_error,
)
from watcher_sync.testing.openstack.identity import PASSWORD, USERS  # noqa: E402

PATH = "/v1/login"
DEMO = {"user": "demo", "password": PASSWORD, "project": "demo"}
WRONG = "tr0ub4dor&3-of-the-user"
REFUSED = "The user, the password or the project is wrong, or the user has no role there"


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Keystone is in this process, and the machine may pause."""
    monkeypatch.setattr(login, "TIMEOUT_SECONDS", 60)


@pytest.fixture
def cloud():
    with FakeOpenStack() as cloud:
        yield cloud


@pytest.fixture
def conf(conf, cloud):
    conf.set_override("auth_strategy", "keystone", group="api")
    conf.set_override("login_failure_rate", 0.01, group="api")  # a pause of the machine allows no further attempt
    keystone.register_opts(conf)
    for name, value in cloud.options("admin").items():
        conf.set_override(name, value, group=keystone.GROUP)
    return conf


@pytest.fixture
def client(conf, store):
    return Client(make_application(conf, store))


def log_in(client, **changes):
    return client.simulate_post(PATH, json={**DEMO, **changes})


def test_a_login_gives_a_token_that_the_api_accepts_and_says_for_whom_it_is(client):
    answer = log_in(client)
    assert answer.status_code == 200, answer.text
    demo = USERS["demo"]
    document = answer.json
    assert document["user"] == {"id": demo.id, "name": "demo"}
    assert document["project"] == {"id": demo.project_id, "name": "demo"}
    assert (document["system"], sorted(document["roles"])) == (False, ["member", "reader"])
    assert document["projects"][demo.project_id] == "demo"
    assert document["expires_at"].endswith("Z")
    assert answer.headers["Cache-Control"] == "no-store"
    headers = {"X-Auth-Token": document["token"]}
    assert client.simulate_get("/v1/instances", headers=headers).status_code == 200
    assert client.simulate_get("/v1/compute_nodes", headers=headers).status_code == 403


def test_an_administrator_logs_in_to_the_system(client):
    body = {"user": "admin", "password": PASSWORD, "user_domain": "Default", "system": True}
    document = client.simulate_post(PATH, json=body).json
    assert (document["project"], document["system"]) == (None, True)
    headers = {"X-Auth-Token": document["token"]}
    assert client.simulate_get("/v1/compute_nodes", headers=headers).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"user": "unknown"}, {"password": WRONG}, {"project": "admin"}, {"project": "unknown"}, {"user_domain": "other"}],
    ids=lambda changes: next(iter(changes)) + "-" + next(iter(changes.values()))[:7],
)
def test_every_refusal_of_keystone_has_one_text(client, problem, changes):
    document = problem(log_in(client, **changes), 401)
    assert document["detail"] == REFUSED
    assert set(document) == {"type", "title", "status", "detail", "request_id"}


@pytest.mark.parametrize(
    ("user", "path", "fault", "is_named"),
    [
        ("admin", "/v3/projects", server_error(500), True),  # by its own projects
        ("admin", "/v3/projects", Garbage(b'{"projects": [{"id": 1}]}'), False),
        ("demo", "/auth/projects", server_error(500), False),
        ("demo", "/auth/projects", Garbage(), False),
        ("demo", "/auth/projects", Cut(), False),
    ],
)
def test_a_login_does_not_fail_for_the_names_of_projects(client, cloud, user, path, fault, is_named):
    cloud.fail(fault, path=path, method="GET")
    document = log_in(client, user=user, project=user).json
    assert document["token"]
    assert (USERS[user].project_id in document["projects"]) is is_named
    assert cloud.requests.count("/auth/tokens", method="POST") == 1


@pytest.mark.slow
def test_a_refusal_with_another_status_is_no_oracle_either(client, cloud, problem):
    cloud.fail(forbidden("Your password is expired"), path="/auth/tokens", method="POST")
    assert problem(log_in(client), 401)["detail"] == REFUSED


@pytest.mark.slow
@pytest.mark.parametrize("fault", [server_error(500), server_error(404), Garbage(), Garbage(b'{"token": []}'), Cut()])
def test_a_keystone_that_fails_is_503_with_retry_after_and_no_second_attempt(client, cloud, problem, fault):
    cloud.fail(fault, path="/auth/tokens", method="POST", count=None)
    answer = log_in(client)
    document = problem(answer, 503)
    assert document["detail"] == "Keystone is not available now"
    assert int(answer.headers["Retry-After"]) > 0
    assert cloud.requests.count("/auth/tokens", method="POST") == 1


def test_a_keystone_that_is_gone_or_does_not_answer_is_503(client, cloud, problem, monkeypatch):
    monkeypatch.setattr(login, "TIMEOUT_SECONDS", 0.2)
    ended = threading.Event()
    cloud.fail(Do(lambda _: ended.wait(deadline(60))), path="/auth/tokens", method="POST")
    problem(log_in(client), 503)
    ended.set()
    cloud.identity.stop()
    problem(log_in(client), 503)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"user": "demo", "password": PASSWORD}, "/project"),
        ({**DEMO, "system": True}, "/project"),
        ({"user": "demo", "project": "demo"}, "/password"),
        ({**DEMO, "more": 1}, "/more"),
        ({**DEMO, "password": ["x"]}, "/password"),
        ({**DEMO, "password": ""}, "/password"),
        ({**DEMO, "password": WRONG * 200}, "/password"),
        ({**DEMO, "user": 7}, "/user"),
        ([DEMO], ""),
    ],
)
def test_a_body_in_another_form_is_refused_without_asking_keystone(client, cloud, problem, body, pointer):
    answer = client.simulate_post(PATH, json=body)
    assert problem(answer, 400)["errors"][0]["pointer"] == pointer
    assert WRONG not in answer.text
    assert PASSWORD not in answer.text
    assert not cloud.requests.count("/auth/tokens", method="POST")


def test_the_body_is_bounded_and_strict_json(client, problem):
    body = json.dumps({**DEMO, "user": "x" * MAX_BODY_BYTES})
    problem(client.simulate_post(PATH, body=body, headers={"Content-Type": "application/json"}), 413)
    twice = '{"user": "demo", "password": "secret", "password": "' + WRONG + '", "project": "demo"}'
    answer = client.simulate_post(PATH, body=twice, headers={"Content-Type": "application/json"})
    problem(answer, 400)
    assert WRONG not in answer.text
    problem(client.simulate_post(PATH, body="user=demo", headers={"Content-Type": "text/plain"}), 415)


def test_a_page_of_another_host_cannot_log_in(client, problem):
    problem(client.simulate_post(PATH, json=DEMO, headers={"Origin": "https://evil.example.com"}), 403)


def attempts(client, number, **more):
    return [client.simulate_post(PATH, json={**DEMO, "password": WRONG}, **more).status_code for _ in range(number)]


def test_failed_logins_of_an_address_have_a_limit_and_successful_ones_have_none(conf, store, cloud, problem):
    conf.set_override("login_failure_burst", 3, group="api")
    conf.set_override("login_failure_rate", 0.01, group="api")
    client = Client(make_application(conf, store))
    assert {log_in(client).status_code for _ in range(5)} == {200}
    assert attempts(client, 5) == [401, 401, 401, 429, 429]
    answer = log_in(client)
    assert int(problem(answer, 429) and answer.headers["Retry-After"]) > 10
    asked = cloud.requests.count("/auth/tokens", method="POST")
    assert attempts(client, 1, remote_addr="192.0.2.9") == [401]
    assert attempts(client, 1, headers={"X-Forwarded-For": "192.0.2.8"}) == [429]  # the proxy is not trusted
    assert cloud.requests.count("/auth/tokens", method="POST") == asked + 1


def test_an_outage_of_keystone_is_no_failed_login(conf, store, cloud):
    conf.set_override("login_failure_burst", 1, group="api")
    client = Client(make_application(conf, store))
    cloud.fail(server_error(503), path="/auth/tokens", method="POST", count=3)
    assert [log_in(client).status_code for _ in range(4)] == [503, 503, 503, 200]
    assert client.simulate_post(PATH, json={"user": "demo"}).status_code == 400
    assert attempts(client, 2) == [401, 429]


@pytest.mark.slow
def test_behind_a_trusted_proxy_each_client_has_its_own_limit(conf, store):
    conf.set_override("login_failure_burst", 1, group="api")
    conf.set_override("trusted_proxies", ["127.0.0.1"], group="api")
    client = Client(make_application(conf, store))
    assert attempts(client, 2, headers={"X-Forwarded-For": "192.0.2.8"}) == [401, 429]
    assert attempts(client, 1, headers={"X-Forwarded-For": "203.0.113.1, 192.0.2.8"}) == [429]
    assert attempts(client, 1, headers={"X-Forwarded-For": "192.0.2.8, 192.0.2.7"}) == [401]


def test_behind_a_trusted_proxy_each_client_has_its_own_limit_of_writes(conf, store):
    options = {"write_rate": 0.01, "write_burst": 2, "trusted_proxies": ["127.0.0.1"]}
    for name, value in options.items():
        conf.set_override(name, value, group="api")
    client = Client(make_application(conf, store))
    assert attempts(client, 3, headers={"X-Forwarded-For": "192.0.2.8"}) == [401, 401, 429]
    assert attempts(client, 1, headers={"X-Forwarded-For": "203.0.113.1, 192.0.2.8"}) == [429]
    assert attempts(client, 1, headers={"X-Forwarded-For": "192.0.2.7"}) == [401]


@pytest.mark.parametrize(
    ("address", "forwarded", "expected"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "203.0.113.5", "192.0.2.1"),
        ("10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "made-up, 203.0.113.5, 10.0.0.2", "203.0.113.5"),
        ("10.0.0.1", "203.0.113.5,", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("", "203.0.113.5", "203.0.113.5"),
        ("2001:db8:1:2:3::4", "", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "[2001:db8:1:2::9]", "2001:db8:1:2::/64"),
        ("10.0.0.1", "x" * 5000, "x" * 100),
    ],
)
def test_the_address_of_a_client_is_what_the_trusted_proxies_report(address, forwarded, expected):
    networks = [ipaddress.ip_network("10.0.0.0/24")]
    environ = {"REMOTE_ADDR": address, "HTTP_X_FORWARDED_FOR": forwarded}
    assert client_address(environ, networks) == expected


def test_without_trusted_proxies_a_unix_socket_has_one_limit():
    assert client_address({"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "203.0.113.5"}, []) == ""


def test_a_proxy_that_is_no_network_is_refused():
    with pytest.raises(ValueError, match="proxy"):
        NetworkText()("proxy.example.com")


def test_logins_at_one_time_have_a_limit_and_leave_threads_for_other_requests(conf, store, cloud, problem):
    client = Client(make_application(conf, store))
    ended = threading.Event()
    cloud.fail(Do(lambda _: ended.wait(deadline(60))), path="/auth/tokens", method="POST", count=None)
    waiting = [threading.Thread(target=log_in, args=(client,)) for _ in range(MAX_CONCURRENT)]
    for thread in waiting:
        thread.start()
    wait_until(lambda: cloud.requests.count("/auth/tokens", method="POST") == MAX_CONCURRENT, what="the logins")
    answer = log_in(client)
    assert problem(answer, 503)["detail"] == "Too many logins at one time; retry later"
    assert int(answer.headers["Retry-After"]) > 0
    ended.set()
    for thread in waiting:
        thread.join()
    cloud.heal()
    assert log_in(client).status_code == 200


def test_neither_password_nor_token_is_in_a_log_or_an_audit_record_even_with_debug(conf, store, cloud):
    import oslo_messaging

    conf.set_override("audit", True, group="api")
    conf.set_override("audit_map_file", "etc/watcher-sync/api_audit_map.conf", group="api")
    oslo_messaging.get_notification_transport(conf)  # registers the options
    conf.set_override("driver", ["log"], group="oslo_messaging_notifications")
    client = Client(make_application(conf, store))
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    names = ("keystoneauth", "keystoneauth.identity", "urllib3", "watcher_sync", "keystonemiddleware", "oslo.messaging")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        token = log_in(client).json["token"]
        log_in(client, password=WRONG)
        cloud.fail(server_error(500), path="/auth/tokens", method="POST")
        log_in(client, password=WRONG)
        client.simulate_post(PATH, json={**DEMO, "password": [WRONG]})
        cloud.identity.stop()
        log_in(client, password=WRONG)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    text = stream.getvalue()
    demo = USERS["demo"]
    assert f'"POST /v1/login" status: 200 user: {demo.id} project: {demo.project_id} request: req-' in text
    assert '"POST /v1/login" status: 401 user: - project: - request: req-' in text
    assert "Keystone unavailable for a login" in text
    assert "Making authentication request" in text
    assert '"action": "authenticate/login"' in text
    assert '"event_type": "audit.http.response"' in text
    for secret in (WRONG, f'"{PASSWORD}"', token):
        assert secret not in text


def test_representations_have_no_secret():
    credentials = Credentials(user="u", password=WRONG, user_domain="d", project=None, project_domain="d")
    made = Login(WRONG, datetime.datetime.now(datetime.UTC), "id", "u", None, None, [], {})
    assert WRONG not in repr(credentials) + str(credentials) + repr(made)


def test_a_redirect_of_keystone_does_not_receive_the_password(cloud):
    with FakeOpenStack() as other:
        target = f"{other.auth_url}/auth/tokens"
        cloud.fail(Answer(ApiError(307, "moved", {"Location": target})), path="/auth/tokens", method="POST")
        credentials = Credentials(
            user="demo", password=PASSWORD, user_domain="Default", project="demo", project_domain="Default"
        )
        with pytest.raises(KeystoneFailed):
            KeystoneAddress(cloud.auth_url).log_in(credentials)
        assert not other.requests.count("/auth/tokens")


@pytest.mark.parametrize("ending", ["", "/", "/v3", "/v3/"])
def test_the_address_may_have_its_version_or_not(cloud, ending):
    credentials = Credentials(
        user="demo", password=PASSWORD, user_domain="Default", project="demo", project_domain="Default"
    )
    url = cloud.auth_url.removesuffix("/v3") + ending
    assert KeystoneAddress(url).log_in(credentials).user == "demo"


def test_the_address_and_the_tls_options_are_those_of_the_section(conf):
    for name, value in {"cafile": "/ca.pem", "certfile": "/c.pem", "keyfile": "/k.pem"}.items():
        conf.set_override(name, value, group=keystone.GROUP)
    found = login.address_of(conf)
    assert found == KeystoneAddress(conf.keystone_authtoken.auth_url, "/ca.pem", ("/c.pem", "/k.pem"))
    conf.set_override("insecure", True, group=keystone.GROUP)
    conf.set_override("auth_url", None, group=keystone.GROUP)
    conf.set_override("www_authenticate_uri", "https://k.example.com/v3", group=keystone.GROUP)
    found = login.address_of(conf)
    assert (found.url, found.verify) == ("https://k.example.com/v3", False)


@pytest.mark.slow
@pytest.mark.parametrize(("option", "value"), [("page_login", False), ("auth_strategy", "noauth")])
def test_without_a_login_the_version_has_no_link_and_the_answer_is_404(conf, store, problem, option, value):
    client = Client(make_application(conf, store))
    assert {"rel": "login", "href": PATH} in client.simulate_get("/v1").json["version"]["links"]
    conf.set_override(option, value, group="api")
    client = Client(make_application(conf, store))
    assert "login" not in str(client.simulate_get("/v1").json["version"]["links"])
    problem(log_in(client), 404)


def test_the_policy_can_close_the_login(conf, store, problem, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('"login:create": "!"\n')
    policy.Enforcer(conf)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    problem(log_in(Client(make_application(conf, store))), 401)
