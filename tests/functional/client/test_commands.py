# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync`` as a user runs it against a live API."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from pathlib import Path

import yaml

from tests.functional.client.conftest import BIN, Run, Site, environment, run, run_here
from tests.functional.executables import start
from tests.waiting import deadline, wait_until


def made(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that went well and complained of nothing."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failed(done: subprocess.CompletedProcess[str], status: int) -> str:
    """The one line on stderr of a command that ended with this status and printed nothing else."""
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_list_is_the_model_in_every_format(site: Site, watcher_sync: Run) -> None:
    snapshot = site.cycle.model.snapshot()
    expected = [(row["id"], row["host"]) for row in snapshot.dump("instance")]
    assert len(expected) > 5
    command = ("entity", "list", "instance", "--fields", "id,host")
    as_json = json.loads(made(watcher_sync(*command, "-f", "json")))
    as_yaml = yaml.safe_load(made(watcher_sync(*command, "-f", "yaml")))
    as_csv = list(csv.DictReader(io.StringIO(made(watcher_sync(*command, "-f", "csv")))))
    assert [(row["ID"], row["Host"]) for row in as_json] == expected
    assert as_yaml == as_json
    assert [(row["ID"], row["Host"] or None) for row in as_csv] == expected
    table = made(watcher_sync(*command))
    assert all(entity_id in table for entity_id, _ in expected)


def test_filter_sort_limit_and_marker_choose(site: Site, watcher_sync: Run) -> None:
    rows = list(site.cycle.model.snapshot().dump("instance"))
    host = next(row["host"] for row in rows if row["host"])
    expected = [row["id"] for row in reversed(rows) if row["host"] == host]
    command = ("entity", "list", "instances", "--filter", f"host={host}", "--sort=-id", "-f", "value", "-c", "id")
    assert made(watcher_sync(*command)).split() == expected
    assert made(watcher_sync(*command, "--limit", "1")).split() == expected[:1]
    assert made(watcher_sync(*command, "--marker", expected[0])).split() == expected[1:]


def test_an_entity_is_shown_with_its_history(site: Site, watcher_sync: Run) -> None:
    row = next(iter(site.cycle.model.snapshot().dump("instance")))
    shown = json.loads(made(watcher_sync("entity", "show", "instance", row["id"], "-f", "json")))
    assert (shown["name"], shown["metadata"]) == (row["name"], row["metadata"])
    history = json.loads(made(watcher_sync("entity", "history", "list", "instance", row["id"], "-f", "json")))
    assert history[0]["Change"] == "created"
    assert history[0]["Delta"]["name"][0] is None


def test_sources_tell_whether_they_can_be_relied_on(watcher_sync: Run) -> None:
    sources = json.loads(made(watcher_sync("source", "list", "-f", "json")))
    assert [(s["Source"], s["Fresh"]) for s in sources] == [("edge", False), ("nova", True)]
    assert "no route" in json.loads(made(watcher_sync("source", "show", "edge", "-f", "json")))["problem"]
    assert "does not exist" in failed(watcher_sync("source", "show", "moon"), 1)


def test_drifts_are_listed(watcher_sync: Run) -> None:
    (drift,) = json.loads(made(watcher_sync("drift", "list", "--kind", "instance", "-f", "json")))
    assert (drift["Entity ID"], drift["Model Value"], drift["Live Value"]) == ("i", "a", "b")
    assert json.loads(made(watcher_sync("drift", "list", "--source", "moon", "-f", "json"))) == []


def test_quarantined_events_are_shown_replayed_and_deleted(watcher_sync: Run) -> None:
    def listed() -> list[int]:
        return [row["ID"] for row in json.loads(made(watcher_sync("quarantine", "list", "-f", "json")))]

    first, second, third = listed()
    assert json.loads(made(watcher_sync("quarantine", "show", str(first), "-f", "json")))["data"] == {"nonsense": 1}
    again = watcher_sync("quarantine", "replay", str(first), "-f", "json")
    assert (again.returncode, json.loads(again.stdout)[0]["Outcome"]) == (1, "quarantined")
    assert listed() == [first, second, third]
    assert made(watcher_sync("quarantine", "delete", str(second))) == ""
    assert str(second) in failed(watcher_sync("quarantine", "delete", str(second), str(third)), 1)
    assert listed() == [first]
    made(watcher_sync("quarantine", "delete", "--all"))
    assert listed() == []
    assert json.loads(made(watcher_sync("quarantine", "replay", "--all", "-f", "json"))) == []


def test_events_are_the_journal(watcher_sync: Run) -> None:
    lines = made(watcher_sync("event", "tail", "--since", "0", "-f", "json")).splitlines()
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == sorted(set(seqs))
    assert seqs[0] == 1
    last = made(watcher_sync("event", "tail", "--limit", "3", "-f", "json")).splitlines()
    # Rows that change only versions are not shown, and do not count.
    assert last == lines[-3:]
    shown = list(yaml.safe_load_all(made(watcher_sync("event", "tail", "-f", "yaml"))))
    assert [row["seq"] for row in shown] == seqs[-10:]
    as_csv = list(csv.DictReader(io.StringIO(made(watcher_sync("event", "tail", "-f", "csv", "--kind", "instance")))))
    assert {row["Kind"] for row in as_csv} == {"instance"}
    assert made(watcher_sync("event", "tail", "--limit", "1")).split()[0] == str(seqs[-1])


def test_a_tail_goes_on_through_a_restart_of_the_api_without_gap_or_repetition(site: Site, tmp_path: Path) -> None:
    output = tmp_path / "tail"
    tail = ("--endpoint", site.url, "event", "tail", "--since", "0", "-f", "json")
    process = start([BIN / "watcher-sync", *tail, "--follow"], output, environment())

    def lines() -> list[str]:
        return [line for line in output.read_text().splitlines(keepends=True) if line.endswith("\n")]

    try:
        wait_until(lambda: len(lines()) >= 10, what="the first changes")
        site.stop()
        site.commit(site.more(len(site.events) - 200))
        site.start()
        everything = made(run("watcher-sync", *tail)).splitlines()
        wait_until(lambda: len(lines()) >= len(everything), what="all changes")
        process.send_signal(signal.SIGINT)
        assert process.wait(deadline(60)) == 130
        # Nothing else is there, on stderr neither.
        assert [json.loads(line)["seq"] for line in output.read_text().splitlines()] == [
            json.loads(line)["seq"] for line in everything
        ]
    finally:
        process.kill()
        process.wait()


def test_a_pipe_that_is_cut_off_ends_it_quietly(site: Site) -> None:
    command = f"'{BIN / 'watcher-sync'}' --endpoint {site.url} event tail --since 0 -f json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=deadline(60), check=False)
    assert json.loads(done.stdout)["seq"] == 1
    assert done.stderr == ""


WRONG = (
    ("entity list rack", "there is no kind 'rack'; the server has aggregate"),
    ("entity list instance --filter colour=red", "project_id, user_id, host"),
    ("entity list instance --filter host", "--filter"),
    ("entity list instance --limit 0", "--limit"),
    ("entity list instance --sort nothing", "sort"),
    ("entity list instance --frobnicate", "--frobnicate"),
    ("entity list", "KIND"),
    ("entity", "no command 'entity'"),
    ("--frobnicate source list", "--frobnicate"),
    ("quarantine show x", "ID"),
    ("quarantine delete", "--all"),
    ("top --interval 0", "--interval"),
    ("--os-cloud moon source list", "moon"),
    ("--os-auth-type moon source list", "moon"),
)


def test_wrong_usage_is_one_line_and_status_2(site: Site, watcher_sync: Run) -> None:
    command, says = WRONG[0]
    assert says in failed(watcher_sync(*command.split()), 2)
    for command, says in WRONG:
        assert says in failed(run_here(*command.split(), WATCHER_SYNC_ENDPOINT=site.url), 2)


def test_what_failed_is_one_line_and_status_1(watcher_sync: Run) -> None:
    assert "instance x does not exist" in failed(watcher_sync("entity", "show", "instance", "x"), 1)
    assert "start from the lists" in failed(watcher_sync("event", "tail", "--since", "999999"), 1)
    refused = {"WATCHER_SYNC_ENDPOINT": "http://127.0.0.1:1"}
    assert "Connection refused" in failed(watcher_sync("source", "list", **refused), 1)
    assert "Connection refused" in failed(watcher_sync("top", "--once", **refused), 1)


def test_without_a_server_it_says_how_to_name_one() -> None:
    assert "WATCHER_SYNC_ENDPOINT" in failed(run("watcher-sync", "source", "list"), 2)


def test_options_and_clouds_of_openstack_name_the_server_too(site: Site) -> None:
    command = ("source", "list", "-f", "value", "-c", "source")
    for variables in ({"OS_AUTH_TYPE": "none", "OS_ENDPOINT": site.url}, {"WATCHER_SYNC_ENDPOINT": site.url + "/v1"}):
        assert made(run_here(*command, **variables)).split() == ["edge", "nova"]
    options = ("--os-auth-type", "none", "--os-endpoint", site.url)
    assert made(run_here(*options, *command)).split() == ["edge", "nova"]
    clouds = site.folder / "clouds.yaml"
    clouds.write_text(yaml.safe_dump({"clouds": {"here": {"auth_type": "none", "auth": {"endpoint": site.url}}}}))
    done = run("watcher-sync", *command, OS_CLOUD="here", OS_CLIENT_CONFIG_FILE=str(clouds))
    assert made(done).split() == ["edge", "nova"]


def test_a_keystone_that_is_away_and_a_lack_of_the_password_are_one_line() -> None:
    variables = {"OS_AUTH_URL": "http://127.0.0.1:1/v3", "OS_USERNAME": "a", "OS_PASSWORD": "b"}
    scope = {"OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default"}
    assert "http://127.0.0.1:1: Connection refused" in failed(run_here("source", "list", **variables, **scope), 1)
    del variables["OS_PASSWORD"]
    lack = "cloud envvars: password: not set; auth_type = password needs it"
    assert lack in failed(run_here("source", "list", **variables, **scope), 2)
