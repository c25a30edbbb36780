# SPDX-License-Identifier: Apache-2.0
"""Watch topics through the client and its commands."""

from __future__ import annotations

import io
import json

import pytest

from watcher_sync.client import Conflict, Gone, NotFound
from watcher_sync.client.commands.arguments import WrongUsage
from watcher_sync.client.commands.cells import title
from watcher_sync.client.commands.watch_topic import parsed_filter
from watcher_sync.client.shell import run

FILTER = {"group": "compute", "kind": "*"}
VALUES = {"name": "one", "spec": {"filters": [FILTER]}}


@pytest.fixture
def command(client, url, capsys, monkeypatch):
    """Runs ``watcher-sync watch topic ...``; gives its status, its output and its errors."""
    monkeypatch.setenv("WATCHER_SYNC_ENDPOINT", url)

    def run_it(*arguments):
        status = run(["watch", "topic", *arguments])
        return (status, *capsys.readouterr())

    return run_it


def test_a_topic_is_created_shown_listed_and_deleted(client):
    made = client.create_watch_topic(VALUES)
    assert made.spec["filters"][0]["name"] == "*"
    assert client.watch_topic("one") == made
    assert client.watch_topics() == [made]
    with pytest.raises(Conflict):
        client.create_watch_topic(VALUES)
    client.delete_watch_topic("one")
    with pytest.raises(NotFound):
        client.watch_topic("one")


def test_the_past_events_come_in_order_whatever_the_size_of_a_page(client, truth):
    client.create_watch_topic(VALUES)
    sequences = [event["metadata"]["sequenceID"] for event in client.watch_events("one")]
    assert sequences == sorted(set(sequences))
    assert len(sequences) > 50
    small = [event["metadata"]["sequenceID"] for event in client.watch_events("one", sequences[3], page_size=7)]
    assert small == sequences[4:]


def test_events_of_another_journal_are_gone(client):
    client.create_watch_topic(VALUES)
    with pytest.raises(Gone):
        list(client.watch_events("one", 10**6))


def test_a_topic_of_options(command):
    status, output, errors = command(
        "create", "one", "--filter", "group=compute,kind=Instance,scope=ComputeNode/n1,type=created+deleted",
        "--title", "T", "--description", "D", "-f", "json",
    )  # fmt: skip
    assert (status, errors) == (0, "")
    made = json.loads(output)
    assert (made["name"], made["title"], made["description"]) == ("one", "T", "D")
    assert made["self_link"] == "/management/v1/watchtopics/one"
    assert made["filters"] == [
        {
            "group": "compute",
            "kind": "Instance",
            "name": "*",
            "scope": {"kind": "ComputeNode", "name": "n1"},
            "type": ["created", "deleted"],
        }
    ]
    assert json.loads(command("list", "-f", "json")[1]) == [{title(name): value for name, value in made.items()}]
    assert json.loads(command("show", "one", "-f", "json")[1]) == made
    assert command("delete", "one", "two") == (1, "", "error: there is no watch topic of the name two\n")
    assert json.loads(command("list", "-f", "json")[1]) == []


def test_a_topic_of_a_file_and_of_stdin(command, tmp_path, monkeypatch):
    file = tmp_path / "topic.yaml"
    file.write_text("name: of-file\nspec:\n  filters:\n    - {group: '*', kind: Pod}\n")
    assert command("create", "--file", str(file))[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(VALUES).encode())))
    assert command("create", "renamed", "--file", "-")[0] == 0
    assert [topic["Name"] for topic in json.loads(command("list", "-f", "json")[1])] == ["of-file", "renamed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("create", "one"), "either --file or at least one --filter"),
        (("create", "--filter", "kind=Pod"), "a topic needs a name"),
        (("create", "one", "--filter", "color=red"), "'color=red' is none of"),
        (("create", "one", "--filter", "type=moved"), "spec/filters/0/type/0: is not one of"),
        (("create", "--file", "/nonexistent"), "/nonexistent"),
    ],
)
def test_wrong_options_are_one_line_and_status_2(command, arguments, text):
    status, output, errors = command(*arguments)
    assert (status, output) == (2, "")
    assert text in errors
    assert errors.count("\n") == 1


def test_a_filter_of_options_matches_everything_that_it_leaves_out():
    assert parsed_filter("kind=Pod") == {"group": "*", "kind": "Pod"}
    assert parsed_filter("scope=Cluster")["scope"] == {"kind": "Cluster", "name": "*"}
    with pytest.raises(WrongUsage):
        parsed_filter("kind")
