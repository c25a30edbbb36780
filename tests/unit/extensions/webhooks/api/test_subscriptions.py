# SPDX-License-Identifier: Apache-2.0
"""Subscriptions in the dialect of ONAP's k8splugin: paths, names and codes, and what is ours on top."""

from __future__ import annotations

import base64
import datetime
import itertools
import json

import pytest

from tests.unit.api.conftest import Client
from tests.unit.extensions.vnf.api.test_instances import DEMO, written
from watcher_sync.assembly.api import make_application
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.webhooks.secrets import SecretBox, new_key
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.model.changes import Delete, Upsert

pytestmark = pytest.mark.slow

BASE = "/v1/instance/vnf/status/subscription"
URL = "https://receiver.example.com/hook"
BODY = {"name": "one", "callback-url": URL}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = new_key()


def secret(number):
    """Another valid secret."""
    return "whsec_" + base64.b64encode(bytes([number]) * 32).decode()


@pytest.fixture
def conf(conf):
    conf.set_override("secret_keys", [KEY], group="outlet_webhook")
    return conf


@pytest.fixture
def client(conf, store):
    """A client of an API with the VNF instance ``vnf``."""
    client = Client(make_application(conf, store))
    assert client.simulate_post("/v1/vnf_instances", json={"id": "vnf", **DEMO}).status_code == 201
    return client


@pytest.fixture
def with_options(conf, store):
    """Makes a client of another worker whose ``[outlet_webhook]`` has these options."""

    def make(**options):
        for name, value in options.items():
            conf.set_override(name, value, group="outlet_webhook")
        return Client(make_application(conf, store))

    return make


@pytest.fixture
def rows(store):
    return Subscriptions(store.database, store.tables)


def made(client, **members):
    """A new subscription."""
    result = client.simulate_post(BASE, json={**BODY, **members})
    assert result.status_code == 201, result.text
    return result.json


def replaced(client, **members):
    """The answer to a PUT of the subscription ``one``."""
    return client.simulate_put(f"{BASE}/one", json={**BODY, **members})


def pointers(problem):
    return [error["pointer"] for error in problem["errors"]]


def secrets_of(rows, name="one"):
    """The decrypted secrets of a subscription."""
    return SecretBox([KEY]).open(rows.find("vnf", name)[0].secrets)


# The table of codes


@pytest.mark.slow
def test_get_of_an_instance_without_subscriptions_is_an_empty_array(client):
    result = client.simulate_get(BASE)
    assert (result.status_code, result.json) == (200, [])


def test_get_is_an_array_of_all_subscriptions(client):
    made(client, name="two")
    made(client)
    result = client.simulate_get(BASE)
    assert (result.status_code, [one["name"] for one in result.json]) == (200, ["one", "two"])


def test_post_is_201_with_the_subscription_and_its_location(client):
    result = client.simulate_post(BASE, json={**BODY, "min-notify-interval": 30, "metadata": {"a": [1, None]}})
    assert result.status_code == 201
    assert result.headers["Location"] == f"{BASE}/one"
    shown = result.json
    assert datetime.datetime.fromisoformat(shown.pop("last-update-time")).tzinfo is not None
    assert shown.pop("id")
    assert shown.pop("sequence") == 1
    assert shown == {
        "name": "one",
        "min-notify-interval": 30,
        "metadata": {"a": [1, None]},
        "callback-url": URL,
        "payload": "status",
        "format": "onap",
        "last-notify-time": None,
        "last-notify-status": 0,
        "state": "active",
        "reason": "",
        "instance-id": "vnf",
        "instance-kind": "vnf_instance",
        "project-id": None,
        "has-secret": False,
        "next-attempt-time": None,
        "lag": 0,
    }


def test_post_with_an_empty_body_is_400(client, problem):
    problem(client.simulate_post(BASE, body=b""), 400)
    problem(client.simulate_post(BASE, body=b"", headers={"Content-Type": "application/json"}), 400)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["{", "no JSON", '{"name": "one",}', '{"name": "one"} {}', "\ufeff{}"])
def test_post_of_what_is_not_json_is_422(client, problem, body):
    problem(client.simulate_post(BASE, body=body), 422)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["[]", "null", '"text"', "1"])
def test_post_of_json_that_is_no_object_is_400(client, problem, body):
    problem(client.simulate_post(BASE, body=body), 400)


@pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}, {"name": 5}])
def test_post_without_a_name_is_400(client, problem, name):
    body = {"callback-url": URL, **name}
    assert pointers(problem(client.simulate_post(BASE, json=body), 400)) == ["/name"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\nb", "\x01id", "one ", "x" * 256])
def test_post_with_a_name_that_no_path_can_have_is_400(client, problem, name):
    assert pointers(problem(client.simulate_post(BASE, json={**BODY, "name": name}), 400)) == ["/name"]


@pytest.mark.slow
@pytest.mark.parametrize("interval", [-1, -0.5, 86401, "5", True])
def test_post_with_a_min_notify_interval_below_0_or_no_number_is_400(client, problem, interval):
    refused = problem(client.simulate_post(BASE, json={**BODY, "min-notify-interval": interval}), 400)
    assert pointers(refused) == ["/min-notify-interval"]


@pytest.mark.slow
@pytest.mark.parametrize("url", [{}, {"callback-url": None}])
def test_post_without_a_callback_url_is_400(client, problem, url):
    assert pointers(problem(client.simulate_post(BASE, json={"name": "one", **url}), 400)) == ["/callback-url"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "url",
    ["", "receiver", "ftp://receiver.example.com", "http://receiver.example.com", "https://user:pw@receiver.example.com",
     "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/", "https://localhost/", 5],
)  # fmt: skip
def test_post_with_an_invalid_callback_url_is_400(client, problem, url):
    result = client.simulate_post(BASE, json={**BODY, "callback-url": url})
    assert pointers(problem(result, 400)) == ["/callback-url"]
    assert "pw" not in result.text


def test_post_for_an_unknown_instance_is_404(client, problem):
    problem(client.simulate_post("/v1/instance/unknown/status/subscription", json=BODY), 404)


def test_post_of_a_name_that_exists_is_409(client, problem):
    first = made(client)
    problem(client.simulate_post(BASE, json={**BODY, "callback-url": f"{URL}/other"}), 409)
    assert client.simulate_get(f"{BASE}/one").json == first


def test_get_of_one_subscription_is_200(client):
    assert client.simulate_get(f"{BASE}/one").status_code == 404
    first = made(client)
    result = client.simulate_get(f"{BASE}/one")
    assert (result.status_code, result.json) == (200, first)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", [f"{BASE}/one", "/v1/instance/unknown/status/subscription/one"])
def test_an_unknown_subscription_is_404(client, problem, method, path):
    problem(client.simulate_request(method, path, json=BODY if method == "PUT" else None), 404)


def test_the_subscriptions_of_an_unknown_instance_are_404(client, problem):
    problem(client.simulate_get("/v1/instance/unknown/status/subscription"), 404)


def test_put_is_200_with_the_new_values(client):
    before = made(client, metadata={"a": 1}, kinds=["pod"], payload="full", **{"min-notify-interval": 5})
    result = replaced(client, **{"callback-url": f"{URL}/new", "min-notify-interval": 0.5})
    assert result.status_code == 200
    changed = {"callback-url", "metadata", "min-notify-interval", "payload", "kinds", "last-update-time"}
    assert {n: v for n, v in result.json.items() if n not in changed} == {
        n: v for n, v in before.items() if n not in changed
    }
    assert (result.json["callback-url"], result.json["metadata"]) == (f"{URL}/new", {})
    assert (result.json["min-notify-interval"], result.json["payload"]) == (0.5, "status")
    assert "kinds" not in result.json
    assert result.json["last-update-time"] > before["last-update-time"]


def test_put_with_another_name_than_the_path_is_400(client, problem):
    made(client)
    assert pointers(problem(replaced(client, name="two"), 400)) == ["/name"]


@pytest.mark.slow
def test_put_with_an_empty_body_is_400_and_of_what_is_not_json_422(client, problem):
    made(client)
    problem(client.simulate_put(f"{BASE}/one", body=b""), 400)
    problem(client.simulate_put(f"{BASE}/one", body="{"), 422)


@pytest.mark.parametrize(
    ("member", "value"), [("min-notify-interval", -1), ("callback-url", None), ("callback-url", "x"), ("name", None)]
)
def test_put_with_a_wrong_member_is_400(client, problem, member, value):
    made(client)
    assert pointers(problem(replaced(client, **{member: value}), 400)) == [f"/{member}"]


def test_delete_is_202_and_frees_the_name(client):
    first = made(client)
    result = client.simulate_delete(f"{BASE}/one")
    assert (result.status_code, result.content) == (202, b"")
    assert client.simulate_delete(f"{BASE}/one").status_code == 404
    assert client.simulate_get(BASE).json == []
    assert made(client)["id"] != first["id"]


# What the clients of k8splugin send


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json; charset=utf-8"}])
def test_a_body_needs_no_content_type(client, headers):
    result = client.simulate_post(BASE, body=json.dumps(BODY), headers=headers)
    assert result.status_code == 201


@pytest.mark.slow
def test_another_content_type_is_415(client, problem):
    problem(client.simulate_post(BASE, body="name=one", headers={"Content-Type": "text/plain"}), 415)


def test_unknown_members_are_ignored_and_null_members_are_absent(client):
    shown = made(client, **{"extra": 1, "metadata": None, "min-notify-interval": None, "kinds": None, "secret": None})
    assert "extra" not in shown
    assert (shown["metadata"], shown["min-notify-interval"], shown["has-secret"]) == ({}, 0, False)


def test_a_whole_number_of_seconds_has_no_fraction(client):
    made(client, **{"min-notify-interval": 30.0})
    assert '"min-notify-interval":30,' in client.simulate_get(f"{BASE}/one").text


def test_a_name_with_spaces_and_signs_is_found_by_its_location(client):
    result = client.simulate_post(BASE, json={**BODY, "name": "a b%c?d"})
    assert client.simulate_get(result.headers["Location"]).json["name"] == "a b%c?d"


# Metadata, filters and formats


def test_metadata_has_at_most_16_kib(client, problem):
    assert made(client, metadata={"a": "x" * (16_384 - 8)})
    refused = problem(client.simulate_post(BASE, json={**BODY, "name": "two", "metadata": {"a": "x" * 16_377}}), 400)
    assert pointers(refused) == ["/metadata"]


def test_filters_are_stored_and_shown(client, rows):
    filters = {"kinds": ["pod", "vnf_instance"], "ids": ["a"], "fields": ["phase"], "labels": {"app": "web"}}
    shown = made(client, format="cloudevents", payload="full", **filters)
    assert {name: shown[name] for name in filters} == filters
    assert (shown["format"], shown["payload"]) == ("cloudevents", "full")
    assert rows.find("vnf", "one")[0].filter == filters


@pytest.mark.slow
@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"kinds": ["instance"]}, "/kinds"),
        ({"kinds": ["planet"]}, "/kinds"),
        ({"kinds": []}, "/kinds"),
        ({"kinds": ["pod"] * 11}, "/kinds"),
        ({"fields": ["phase", "moons"]}, "/fields/1"),
        ({"fields": ["phase"], "kinds": ["workload"]}, "/fields/0"),
        ({"labels": {"a": "b"}, "kinds": ["vnf_instance"]}, "/labels"),
        ({"labels": {"a": 1}}, "/labels/a"),
        ({"labels": {f"l{i}": "" for i in range(21)}}, "/labels"),
        ({"labels": {"l" * 318: ""}}, "/labels"),
        ({"ids": ["x" * 256]}, "/ids/0"),
        ({"ids": ["x"] * 101}, "/ids"),
        ({"payload": "half"}, "/payload"),
        ({"format": "xml"}, "/format"),
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_400(client, problem, members, pointer):
    assert pointers(problem(client.simulate_post(BASE, json={**BODY, **members}), 400)) == [pointer]


def test_a_server_and_an_instance_of_a_service_type_have_subscriptions_too(client, cycle):
    written(cycle, Upsert("instance", "server", "1", {"details": {"name": "web"}, "state": {"state": "active"}}))
    sti = client.simulate_post("/v1/service_type_instances", json={"service_type": "vm", "instance_name": "s"}).json
    for instance_id, kind in (("server", "instance"), (sti["id"], "service_type_instance")):
        path = f"/v1/instance/{instance_id}/status"
        result = client.simulate_post(f"{path}/subscription", json={**BODY, "kinds": [kind]})
        assert (result.status_code, result.json["instance-kind"]) == (201, kind)
        status = client.simulate_get(path).json
        assert [(one["id"], one["kind"]) for one in status["resourcesStatus"]] == [(instance_id, kind)]


# Secrets


def test_a_secret_is_encrypted_and_never_shown(client, rows, store):
    result = client.simulate_post(BASE, json={**BODY, "secret": SECRET})
    answers = [result, client.simulate_get(BASE), client.simulate_get(f"{BASE}/one"), replaced(client)]
    assert all(answer.json == result.json or answer.status_code == 200 for answer in answers)
    assert all(SECRET[6:] not in answer.text for answer in answers)
    assert result.json["has-secret"] is True
    assert [(one.secret, one.expires_at) for one in secrets_of(rows)] == [(SECRET, None)]
    assert SECRET[6:] not in rows.find("vnf", "one")[0].secrets


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "A" * 8, "whsec_?" + "q" * 40, 5])
def test_a_wrong_secret_is_400_and_no_answer_and_no_log_repeats_it(client, problem, caplog, wrong):
    result = client.simulate_post(BASE, json={**BODY, "secret": wrong})
    assert pointers(problem(result, 400)) == ["/secret"]
    if isinstance(wrong, str):
        assert wrong[6:] not in result.text
        assert wrong[6:] not in caplog.text


def test_a_secret_is_400_where_the_site_has_no_key(with_options, client, problem):
    keyless = with_options(secret_keys=[])
    assert pointers(problem(keyless.simulate_post(BASE, json={**BODY, "secret": SECRET}), 400)) == ["/secret"]
    assert keyless.simulate_post(BASE, json=BODY).status_code == 201


def test_a_wrong_key_of_the_site_is_refused_at_the_start(with_options):
    with pytest.raises(ConfigError, match="secret_keys"):
        with_options(secret_keys=["short"])


def test_after_a_new_secret_the_old_one_signs_for_the_overlap(client, rows):
    made(client, secret=SECRET)
    before = datetime.datetime.now(datetime.UTC)
    assert replaced(client, secret=secret(1)).status_code == 200
    new, old = secrets_of(rows)
    assert (new.secret, new.expires_at, old.secret) == (secret(1), None, SECRET)
    assert 0 <= (old.expires_at - before).total_seconds() - 86_400 < 60


def test_at_most_three_secrets_sign_at_one_time(client, rows):
    made(client, secret=SECRET)
    for number in range(1, 5):
        assert replaced(client, secret=secret(number)).status_code == 200
    assert [one.secret for one in secrets_of(rows)] == [secret(4), secret(3), secret(2)]
    ends = [one.expires_at for one in secrets_of(rows)]
    assert ends[0] is None
    assert ends[1] >= ends[2]


def test_without_an_overlap_the_old_secret_ends_at_once(client, with_options, rows):
    made(client, secret=SECRET)
    assert replaced(with_options(secret_overlap=0), secret=secret(1)).status_code == 200
    assert [one.secret for one in secrets_of(rows)] == [secret(1)]


def test_a_put_with_the_present_secret_changes_no_secret(client, rows):
    made(client, secret=SECRET)
    before = rows.find("vnf", "one")[0].secrets
    assert replaced(client, secret=SECRET).status_code == 200
    assert rows.find("vnf", "one")[0].secrets == before


@pytest.mark.slow
def test_a_put_without_a_secret_leaves_it_and_an_empty_one_removes_it(client, rows):
    made(client, secret=SECRET)
    assert replaced(client).json["has-secret"] is True
    assert secrets_of(rows)[0].secret == SECRET
    assert replaced(client, secret="").json["has-secret"] is False
    assert rows.find("vnf", "one")[0].secrets is None


def test_a_new_secret_replaces_one_whose_key_is_gone(client, with_options, rows):
    made(client, secret=SECRET)
    other = new_key()
    assert replaced(with_options(secret_keys=[other]), secret=secret(1)).status_code == 200
    assert [one.secret for one in SecretBox([other]).open(rows.find("vnf", "one")[0].secrets)] == [secret(1)]


# Options of the site


def test_a_site_without_webhooks_accepts_no_subscription(client, with_options, problem):
    made(client)
    disabled = with_options(enabled=False)
    problem(disabled.simulate_post(BASE, json={**BODY, "name": "two"}), 503)
    assert "enabled" in problem(replaced(disabled), 503)["detail"]
    problem(disabled.simulate_post(f"{BASE}/one/test"), 503)
    assert disabled.simulate_get(f"{BASE}/one").status_code == 200
    assert disabled.simulate_delete(f"{BASE}/one").status_code == 202


def test_http_and_private_networks_are_accepted_where_the_site_says_so(client, with_options):
    open_site = with_options(allow_http=True, allowed_networks=["10.20.0.0/16"])
    for number, url in enumerate(["http://receiver.example.com/", "https://10.20.0.9/"]):
        result = open_site.simulate_post(BASE, json={**BODY, "name": f"n{number}", "callback-url": url})
        assert result.status_code == 201, result.text


# Test messages, replay and the delivery log


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onap", "cloudevents", "cloudevents-batch"])
def test_a_test_message_has_the_format_of_the_subscription(client, store, format):
    sequence = made(client, format=format, metadata={"m": 1})["sequence"]
    result = client.simulate_post(f"{BASE}/one/test")
    assert result.status_code == 202
    with store.database.connect() as connection:
        row = connection.execute(store.tables.webhook_deliveries.select()).one()
    assert (row.webhook_id, row.purpose, row.state) == (result.json["webhook-id"], "test", "pending")
    assert row.webhook_id.startswith("msg_")
    body = json.loads(row.body)
    nothing = {"created": [], "deleted": [], "modified": []}
    if format == "cloudevents-batch":
        (body,) = body
        assert (row.content_type, body["data"]) == (f"application/{format}+json", {"instance-id": "vnf", "test": True})
        assert body["id"] == f"{row.webhook_id}/0"
        return
    if format == "cloudevents":
        assert (body["specversion"], body["id"], body["source"]) == ("1.0", row.webhook_id, "/v1/instance/vnf")
        body = body["data"]
    assert row.content_type == {"onap": "application/json"}.get(format, f"application/{format}+json")
    assert (body["instance-id"], body["subscription-name"], body["metadata"]) == ("vnf", "one", {"m": 1})
    assert (body["resource-changes"], body["sequence"]) == (nothing, sequence)
    assert body["previous-sequence"] == sequence


def test_the_delivery_log_is_paged_with_the_newest_first(client):
    made(client)
    ids = [client.simulate_post(f"{BASE}/one/test").json["webhook-id"] for _ in range(5)]
    found, path = [], f"{BASE}/one/deliveries?limit=2&state=pending"
    for _ in itertools.count():
        page = client.simulate_get(path).json
        found += page["deliveries"]
        path = page["next"]
        if path is None:
            break
    assert [one["webhook-id"] for one in found] == ids[::-1]
    assert found[0]["attempts"] == []
    assert found[0]["ended-time"] is None
    assert client.simulate_get(f"{BASE}/one/deliveries?state=dead").json["deliveries"] == []
    assert client.simulate_get(f"{BASE}/two/deliveries").status_code == 404


def test_a_replay_is_202_and_410_where_the_journal_does_not_reach_back(client, store, rows, problem, cycle):
    made(client)
    path = f"{BASE}/one/replay"
    written(cycle, *(Upsert("instance", f"s{i}", "1", {"state": {"state": "active"}}) for i in range(5)))
    result = client.simulate_post(path, json={"since": 0})
    assert (result.status_code, result.content) == (202, b"")
    assert rows.find("vnf", "one")[0].replay_since == 0
    assert pointers(problem(client.simulate_post(path, json={"since": 7}), 400)) == ["/since"]
    assert pointers(problem(client.simulate_post(path, json={}), 400)) == ["/since"]
    journal = store.tables.journal
    with store.database.begin() as connection:
        connection.execute(journal.delete().where(journal.c.seq <= 3))
    assert client.simulate_post(path, json={"since": 3}).status_code == 202
    problem(client.simulate_post(path, json={"since": 2}), 410)
    with store.database.begin() as connection:
        connection.execute(journal.delete())
    problem(client.simulate_post(path, json={"since": 5}), 410)
    assert client.simulate_post(path, json={"since": 6}).status_code == 202
    assert client.simulate_post(f"{BASE}/two/replay", json={"since": 6}).status_code == 404


# All subscriptions


def test_all_subscriptions_are_listed_in_pages_by_id(client, rows, store):
    ids = sorted(made(client, name=f"n{i}")["id"] for i in range(5))
    found, path = [], "/v1/subscriptions?limit=2"
    while path is not None:
        page = client.simulate_get(path).json
        found += [one["id"] for one in page["subscriptions"]]
        path = page["next"]
    assert found == ids
    t = store.tables.subscriptions
    with store.database.begin() as connection:
        connection.execute(t.update().where(t.c.id == ids[1]).values(state="suspended", reason="failures"))
    (shown,) = client.simulate_get("/v1/subscriptions?state=suspended").json["subscriptions"]
    assert (shown["id"], shown["state"], shown["reason"]) == (ids[1], "suspended", "failures")
    assert len(client.simulate_get("/v1/subscriptions?state=active").json["subscriptions"]) == 4


def test_a_put_makes_a_suspended_subscription_active(client, store):
    made(client)
    with store.database.begin() as connection:
        connection.execute(store.tables.subscriptions.update().values(state="suspended", reason="failures"))
    assert client.simulate_get(f"{BASE}/one").json["state"] == "suspended"
    assert (replaced(client).json["state"], replaced(client).json["reason"]) == ("active", "")


def test_the_lag_is_the_age_of_the_oldest_undelivered_change(client, store):
    made(client)
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    with store.database.begin() as connection:
        connection.execute(
            store.tables.subscription_progress.update().values(
                behind_since=since, last_notify_time=since, last_notify_status=503, next_attempt_at=since
            )
        )
    shown = client.simulate_get(f"{BASE}/one").json
    assert 300 <= shown["lag"] < 330
    assert shown["last-notify-status"] == 503
    assert datetime.datetime.fromisoformat(shown["last-notify-time"]) == since
    assert datetime.datetime.fromisoformat(shown["next-attempt-time"]) == since


def test_a_subscription_outlives_its_instance_and_can_be_deleted(client):
    made(client)
    assert client.simulate_delete("/v1/vnf_instances/vnf").status_code == 204
    assert [one["name"] for one in client.simulate_get(BASE).json] == ["one"]
    assert client.simulate_post(BASE, json={**BODY, "name": "two"}).status_code == 404
    assert client.simulate_get(f"{BASE}/one").status_code == 200
    assert client.simulate_delete(f"{BASE}/one").status_code == 202
    assert client.simulate_get(BASE).status_code == 404


@pytest.mark.slow
def test_no_test_message_is_sent_after_the_end(client, rows):
    made(client)
    assert client.simulate_post(f"{BASE}/one/test").status_code == 202
    one, _ = rows.find("vnf", "one")
    with rows._database.begin() as connection:
        t = rows._tables.subscriptions
        connection.execute(t.update().where(t.c.id == one.id).values(state="gone"))
    assert client.simulate_post(f"{BASE}/one/test").status_code == 409


def test_at_most_ten_test_messages_wait(client):
    made(client)
    answers = [client.simulate_post(f"{BASE}/one/test").status_code for _ in range(11)]
    assert answers == [202] * 10 + [409]


# The status of an instance


@pytest.fixture
def running(cycle):
    """The workload of the VNF instance, a pod of it, and another pod."""
    common = {"cluster": "edge", "namespace": "default"}
    written(
        cycle,
        Upsert("workload", "w", "1", {"state": {**common, "kind": "Deployment", "name": "vdu1", "replicas": 1}}),
        Upsert("pod", "p", "1", {"state": {**common, "name": "vdu1-x", "owner_uid": "w", "phase": "Running"}}),
        Upsert("pod", "other", "1", {"state": {**common, "name": "other", "phase": "Running"}}),
    )


def test_the_status_of_a_vnf_instance_has_its_workloads_and_pods(client, running):
    status = client.simulate_get("/v1/instance/vnf/status").json
    assert status["request"] == {"instance-id": "vnf", "kind": "vnf_instance", "name": "demo"}
    assert status["ready"] is False
    assert status["resourceCount"] == 2
    assert [(one["kind"], one["id"]) for one in status["resourcesStatus"]] == [("pod", "p"), ("workload", "w")]
    assert status["resourcesStatus"][0]["GVK"] == {"Group": "", "Version": "v1", "Kind": "Pod"}
    assert status["resourcesStatus"][0]["status"]["phase"] == "Running"


def test_the_status_has_whole_objects_and_chosen_kinds(client, running, problem):
    def status(**query):
        return client.simulate_get("/v1/instance/vnf/status", params=query).json["resourcesStatus"]

    assert "owner_uid" not in status()[0]["status"]
    assert status(payload="full")[0]["status"]["owner_uid"] == "w"
    assert [one["kind"] for one in status(kinds="workload")] == ["workload"]
    assert [one["kind"] for one in status(kinds="vnf_instance,pod")] == ["pod", "vnf_instance"]
    refused = problem(client.simulate_get("/v1/instance/vnf/status?kinds=instance"), 400)
    assert pointers(refused) == ["/kinds"]


def test_the_status_of_an_unknown_or_deleted_instance_is_404(client, problem, cycle):
    problem(client.simulate_get("/v1/instance/unknown/status"), 404)
    written(cycle, Upsert("instance", "server", "1", {"state": {"state": "active"}}))
    assert client.simulate_get("/v1/instance/server/status").status_code == 200
    written(cycle, Delete("instance", "server", "2"))
    problem(client.simulate_get("/v1/instance/server/status"), 404)
