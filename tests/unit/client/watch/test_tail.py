# SPDX-License-Identifier: Apache-2.0
"""``event tail --topic`` prints the events of a topic over the watch stream."""

from __future__ import annotations

import csv
import io
import json

import grpc
import pytest
import yaml

from watcher_sync.client import connect
from watcher_sync.client.shell import run
from watcher_sync.client.watch import manager
from watcher_sync.testing.watch.service import FakeWatchService, Refusal
from watcher_sync.testing.watch.topic import FakeTopic


@pytest.fixture
def service():
    with FakeWatchService(topic=FakeTopic("/management/v1/watchtopics/mine")) as made:
        made.topic.publish(5)
        yield made


def tail(service, *options):
    address = ("--stream-address", f"127.0.0.1:{service.port}")
    return run(["--endpoint", service.url, "event", "tail", "--topic", "mine", *address, *options])


def test_events_after_a_sequence_are_printed_as_lines_of_json(service, capsys):
    assert tail(service, "--since", "2", "--limit", "3", "-f", "json") == 0

    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["sequence"] for each in events] == [3, 4, 5]
    assert events[0]["name"] == "instance-3"
    assert events[0]["attributes"] == {"state": "active", "sequence": "3"}


def test_the_table_has_a_line_for_each_event(service, capsys):
    assert tail(service, "--since", "4", "--limit", "1") == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[0] == "5"
    assert "updated compute/Instance instance-5 in ComputeNode compute-1  sequence=5 state=active" in line


def test_yaml_and_csv_have_the_same_events(service, capsys):
    assert tail(service, "--since", "3", "--limit", "2", "-f", "yaml") == 0
    assert [each["sequence"] for each in yaml.safe_load_all(capsys.readouterr().out)] == [4, 5]

    assert tail(service, "--since", "3", "--limit", "2", "-f", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(each["Sequence"], each["Type"], each["Kind"]) for each in rows] == [
        ("4", "updated", "Instance"),
        ("5", "updated", "Instance"),
    ]


def test_the_error_that_ends_the_watch_is_one_line(service, capsys):
    service.refusals.append(Refusal(grpc.StatusCode.NOT_FOUND, "there is no such topic"))

    assert tail(service) == 1
    assert "there is no such topic" in capsys.readouterr().err


@pytest.mark.parametrize("options", [("--kind", "instance"), ("--id", "x"), ("--all-projects",)])
def test_filters_of_the_journal_cannot_be_used_with_a_topic(service, options, capsys):
    assert tail(service, *options) == 2
    assert "cannot be used with --topic" in capsys.readouterr().err


def test_options_of_the_stream_need_a_topic(service, capsys):
    assert run(["--endpoint", service.url, "event", "tail", "--stream-address", "x:1"]) == 2
    assert "need --topic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://api.example.com:8790", None),
        ("https://api.example.com/v1", None),
        ("https://api.example.com", "outlet:99"),
    ],
)
def test_the_default_address_is_the_host_of_the_api_and_the_port_of_the_outlet(endpoint, address, monkeypatch):
    made = []

    def make(host, port, _tenant_id, _token_getter, options):
        made.append((host, port, options.tls is not None, options.harvester))

    monkeypatch.setattr(manager, "WatchManager", make)
    connect(endpoint).watch_manager(address=address)

    host, port = ("outlet", 99) if address else ("api.example.com", 8776)
    assert made == [(host, port, endpoint.startswith("https"), endpoint.removesuffix("/v1"))]
