# SPDX-License-Identifier: Apache-2.0
"""Subscriptions through the client and its commands."""

from __future__ import annotations

import base64
import datetime
import json

import pytest

from tests.unit.extensions.vnf.api.test_instances import DEMO
from tests.unit.extensions.webhooks.api.test_subscriptions import KEY, SECRET, secrets_of
from watcher_sync.client import BadRequest, Conflict, Gone, InvalidId, NotFound
from watcher_sync.client.shell import run
from watcher_sync.client.subscriptions import new_secret
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions

pytestmark = pytest.mark.slow

URL = "https://receiver.example.com/hook?key=1"
VALUES = {"name": "one", "callback-url": URL}


@pytest.fixture
def conf(conf):
    conf.set_override("secret_keys", [KEY], group="outlet_webhook")
    return conf


@pytest.fixture
def client(client):
    """A client of an API with the VNF instances ``vnf`` and ``other``."""
    client.register_vnf_instance({"id": "vnf", **DEMO})
    client.register_vnf_instance({"id": "other", **DEMO})
    return client


@pytest.fixture
def rows(store):
    return Subscriptions(store.database, store.tables)


@pytest.fixture
def command(client, url, capsys, monkeypatch):
    """Runs ``watcher-sync subscription ...``; gives its status, its output and its errors."""
    monkeypatch.setenv("WATCHER_SYNC_ENDPOINT", url)

    def run_it(*arguments):
        status = run(["subscription", *arguments])
        return (status, *capsys.readouterr())

    return run_it


def as_json(done):
    """The output of a command that went well."""
    status, output, errors = done
    assert (status, errors) == (0, "")
    return json.loads(output)


# The client


def test_a_subscription_is_created_shown_listed_replaced_and_deleted(client):
    made = client.create_subscription("vnf", {**VALUES, "kinds": ["pod"], "secret": SECRET})
    assert (made.name, made.callback_url, made.kinds, made.has_secret) == ("one", URL, ["pod"], True)
    assert made.last_update_time.tzinfo is not None
    assert client.subscription("vnf", "one") == made
    assert client.instance_subscriptions("vnf") == [made]
    assert client.instance_subscriptions("other") == []
    assert list(client.subscriptions()) == [made]
    replaced = client.replace_subscription("vnf", "one", {"callback-url": URL, "min-notify-interval": 5})
    assert (replaced.min_notify_interval, replaced.kinds, replaced.has_secret) == (5, None, True)
    client.delete_subscription("vnf", "one")
    assert list(client.subscriptions()) == []


def test_the_errors_are_those_of_the_api(client):
    client.create_subscription("vnf", VALUES)
    with pytest.raises(Conflict):
        client.create_subscription("vnf", VALUES)
    with pytest.raises(NotFound):
        client.create_subscription("unknown", VALUES)
    with pytest.raises(BadRequest) as refused:
        client.create_subscription("vnf", {**VALUES, "callback-url": "x"})
    assert [error.pointer for error in refused.value.errors] == ["/callback-url"]
    for call in (client.subscription, client.delete_subscription, client.test_subscription):
        with pytest.raises(NotFound):
            call("vnf", "two")
    with pytest.raises(NotFound):
        client.replay_subscription("vnf", "two", 0)
    with pytest.raises(InvalidId):
        client.subscription("vnf", "..")


def test_a_test_message_is_in_the_delivery_log(client):
    client.create_subscription("vnf", VALUES)
    ids = [client.test_subscription("vnf", "one") for _ in range(3)]
    assert [one.webhook_id for one in client.deliveries("vnf", "one")] == ids[::-1]
    assert [one.webhook_id for one in client.deliveries("vnf", "one", limit=1)] == ids[2:]
    assert list(client.deliveries("vnf", "one", state="dead")) == []


def test_a_replay_beyond_the_journal_is_gone(client, store, rows):
    client.create_subscription("vnf", VALUES)
    client.replay_subscription("vnf", "one", 0)
    assert rows.find("vnf", "one")[0].replay_since == 0
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete())
    with pytest.raises(Gone):
        client.replay_subscription("vnf", "one", 0)


def test_the_status_of_an_instance_is_the_document_of_the_api(client):
    status = client.instance_status("vnf", full=True, kinds=["vnf_instance"])
    assert status["request"]["instance-id"] == "vnf"
    assert [one["kind"] for one in status["resourcesStatus"]] == ["vnf_instance"]


def test_a_new_secret_has_32_random_bytes(client, rows):
    secret = new_secret(lambda count: bytes(range(count)))
    assert base64.b64decode(secret.removeprefix("whsec_")) == bytes(range(32))
    client.create_subscription("vnf", {**VALUES, "secret": secret})
    assert new_secret() != new_secret()


# The commands


def test_create_sends_every_option(command):
    options = (
        "--interval", "2.5", "--metadata", '{"a": 1}', "--payload", "full", "--message-format", "cloudevents",
        "--kind", "pod", "--kind", "vnf-instance", "--id", "a", "--id", "b", "--field", "phase",
        "--label", "app=web", "--label", "empty=",
    )  # fmt: skip
    made = as_json(command("create", "vnf", "one", URL, *options, "-f", "json"))
    assert (made["min_notify_interval"], made["metadata"], made["payload"]) == (2.5, {"a": 1}, "full")
    assert (made["format"], made["kinds"], made["ids"]) == ("cloudevents", ["pod", "vnf_instance"], ["a", "b"])
    assert (made["fields"], made["labels"]) == (["phase"], {"app": "web", "empty": ""})
    assert (made["callback_url"], made["has_secret"]) == (URL, False)
    assert as_json(command("show", "vnf", "one", "-f", "json")) == made


def test_a_secret_is_read_from_a_file_and_not_printed(command, rows, tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    status, output, _ = command("create", "vnf", "one", URL, "--secret-file", str(file))
    assert status == 0
    assert SECRET not in output
    assert [one.secret for one in secrets_of(rows)] == [SECRET]
    status, output, errors = command("create", "vnf", "two", URL, "--secret-file", str(tmp_path / "none"))
    assert (status, output, errors.count("\n")) == (2, "", 1)


def test_a_generated_secret_is_printed_once(command, rows):
    made = as_json(command("create", "vnf", "one", URL, "--generate-secret", "-f", "json"))
    assert [one.secret for one in secrets_of(rows)] == [made["secret"]]
    assert "secret" not in as_json(command("show", "vnf", "one", "-f", "json"))
    changed = as_json(command("set", "vnf", "one", "--generate-secret", "-f", "json"))
    assert [one.secret for one in secrets_of(rows)] == [changed["secret"], made["secret"]]


def test_no_command_takes_a_secret_on_its_command_line(command, rows):
    assert command("create", "vnf", "one", URL, "--secret", SECRET)[0] == 2
    assert rows.find("vnf", "one") is None


def test_set_leaves_what_no_option_names(command, rows):
    options = ("--kind", "pod", "--label", "a=b", "--interval", "5", "--generate-secret", "-f", "json")
    before = as_json(command("create", "vnf", "one", URL, *options))
    changed = as_json(command("set", "vnf", "one", "--interval", "0", "--field", "phase", "-f", "json"))
    same = set(before) - {"secret", "min_notify_interval", "fields", "last_update_time"}
    assert {name: changed[name] for name in same} == {name: before[name] for name in same}
    assert (changed["min_notify_interval"], changed["fields"]) == (0, ["phase"])
    cleared = as_json(command("set", "vnf", "one", "--no-filter", "--no-secret", "--id", "p", "-f", "json"))
    assert (cleared["kinds"], cleared["labels"], cleared["fields"]) == (None, None, None)
    assert (cleared["ids"], cleared["has_secret"]) == (["p"], False)
    moved = as_json(command("set", "vnf", "one", "--callback-url", "https://other.example.com/", "-f", "json"))
    assert moved["callback_url"] == "https://other.example.com/"


def test_list_shows_the_state_the_last_code_the_lag_and_the_next_attempt(command, store):
    for instance in ("vnf", "other"):
        as_json(command("create", instance, "one", URL, "-f", "json"))
    t = store.tables.subscriptions
    with store.database.begin() as connection:
        connection.execute(t.update().where(t.c.instance_id == "other").values(state="suspended"))
        connection.execute(
            store.tables.subscription_progress.update().values(
                last_notify_status=503, behind_since=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
            )
        )
    _, output, _ = command("list")
    heading = ["Instance ID", "Name", "State", "Reason", "Last Notify Status", "Lag", "Next Attempt Time"]
    assert [title.strip() for title in output.splitlines()[1].strip("| ").split("|")] == heading
    found = as_json(command("list", "--state", "suspended", "-f", "json"))
    assert [(one["Instance ID"], one["Last Notify Status"], one["Lag"] > 0) for one in found] == [("other", 503, True)]
    of_one = as_json(command("list", "--instance", "vnf", "-f", "json"))
    assert [one["Instance ID"] for one in of_one] == ["vnf"]
    assert as_json(command("list", "--instance", "vnf", "--state", "gone", "-f", "json")) == []
    assert len(as_json(command("list", "--limit", "1", "-f", "json"))) == 1
    assert len(as_json(command("list", "--instance", "vnf", "--limit", "1", "-f", "json"))) == 1
    assert command("list", "--instance", "vnf", "--all-projects")[0] == 2


def test_delete_deletes_all_that_exist_and_names_the_others(command):
    for name in ("one", "two"):
        as_json(command("create", "vnf", name, URL, "-f", "json"))
    status, output, errors = command("delete", "vnf", "one", "three", "two")
    assert (status, output) == (1, "")
    assert errors == "error: vnf has no subscription of the name three\n"
    assert as_json(command("list", "-f", "json")) == []


def test_test_replay_and_deliveries(command, rows, store):
    as_json(command("create", "vnf", "one", URL, "-f", "json"))
    sent = as_json(command("test", "vnf", "one", "-f", "json"))
    assert as_json(command("delivery", "list", "vnf", "one", "-f", "json"))[0]["Webhook ID"] == sent["webhook_id"]
    attempts = [{"time": "2026-01-01T00:00:00Z", "code": code, "detail": "", "seconds": 1} for code in (0, 503)]
    with store.database.begin() as connection:
        connection.execute(store.tables.webhook_deliveries.update().values(attempts=attempts, state="dead"))
    _, output, _ = command("delivery", "list", "vnf", "one", "--state", "dead")
    assert output.splitlines()[3].replace("|", "").split()[-2:] == ["2", "503"]
    assert command("replay", "vnf", "one", "--since", "1") == (0, "", "")
    assert rows.find("vnf", "one")[0].replay_since == 1
    assert command("replay", "vnf", "one", "--since", "99")[0] == 2


@pytest.mark.parametrize("option", [("--metadata", "[]"), ("--metadata", "{"), ("--label", "a"), ("--interval", "x")])
def test_an_option_that_makes_no_sense_is_a_usage_error(command, capsys, option):
    with pytest.raises(SystemExit, match="2"):
        command("create", "vnf", "one", URL, *option)
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
