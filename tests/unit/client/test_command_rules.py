# SPDX-License-Identifier: Apache-2.0
"""What holds for every command of the entry points, so that a new one cannot differ."""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import re
import subprocess

import pytest
from cliff.lister import Lister
from cliff.show import ShowOne

from tests.simulated import telling, told
from tests.unit.extensions.log.rows import outlet_cursor
from tests.unit.extensions.vnf.api.test_instances import DEMO, written
from watcher_sync.client.commands import kinds as nouns
from watcher_sync.client.commands.base import Command, ListCommand, RowsCommand, ShowCommand
from watcher_sync.client.commands.cells import Delta, title
from watcher_sync.client.shell import commands, run
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.extensions.log.cursors import write_outlet
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.engines import EngineRow, write_engine
from watcher_sync.storage.groups.source_status import SourceRow, write_sources

VERBS = {"create", "set", "unset", "delete", "list", "show"}

ACTIONS = {
    "event tail": "an output without end, not a list",
    "quarantine replay": "applies events again",
    "subscription replay": "delivers again",
    "subscription test": "sends a message",
    "vnf sync": "compares with the cluster",
    "vnf operation heartbeat": "extends a lease",
    "vnf operation end": "keeps the operation in the list",
    "diff": "compares two moments",
    "export": "writes a file",
    "search": "finds entities of all kinds",
    "top": "draws",
    "demo": "runs the demonstration",
}
"""Commands whose verb is none of ``VERBS``, with the reason."""

COMMANDS = {name: entry.load() for name, entry in commands()}
OWN = {name: command for name, command in COMMANDS.items() if issubclass(command, Command)}
LISTS = sorted(name for name in OWN if name.endswith(" list"))

OF_KINDS = [each.list for each in vars(nouns).values() if isinstance(each, nouns.KindCommands)]
NOUNS = [name.removesuffix(" list") for name in LISTS if OWN[name] in OF_KINDS]

MARKERS = {
    "engine list": "pid",
    "entity history list": "seq",
    "event list": "seq",
    "inventory list": "source",
    "outlet list": "outlet",
    "source list": "source",
    "vnf operation list": "token",
    "watch topic list": "name",
}
"""The field that ``--marker`` names, if it is not the id."""

ARGUMENTS = {
    "entity list": ["vnf_instance"],
    "entity history list": ["vnf_instance", "vnf"],
    "entity show": ["vnf_instance", "vnf"],
    "event list": ["--since", "0"],
    "graph show": ["vnf_instance/vnf"],
    "impact show": ["vnf_instance/vnf"],
    "outlet show": ["bus"],
    "source show": ["nova"],
    "subscription delivery list": ["vnf", "one"],
    "subscription show": ["vnf", "one"],
    "service type instance show": ["sti"],
    "vnf operation list": ["vnf"],
    "vnf show": ["vnf"],
    "watch topic show": ["one"],
    **{f"{noun} show": ["e"] for noun in NOUNS},
}


def parser_of(name: str) -> argparse.ArgumentParser:
    return OWN[name](None, None).get_parser(name)


def options_of(name: str) -> set[str]:
    return {option for action in parser_of(name)._actions for option in action.option_strings}


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_command_ends_in_a_verb_of_openstackclient_or_says_why_not(name):
    assert name.split()[-1] in VERBS or name in ACTIONS


def test_every_exception_is_a_command():
    assert set(ACTIONS) <= set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OWN))
def test_output_and_verb_agree(name):
    command = OWN[name]
    if issubclass(command, (Lister, ShowOne)):
        titled = (RowsCommand.produce_output, ShowCommand.produce_output)
        assert command.produce_output in titled, "its titles and values are not those of all others"
    assert issubclass(command, ListCommand) == name.endswith(" list")
    assert issubclass(command, ShowCommand) or not name.endswith(" show")


@pytest.mark.parametrize("name", LISTS)
def test_every_list_has_the_same_four_options(name):
    assert {"--filter", "--sort", "--limit", "--marker"} <= options_of(name)


@pytest.mark.parametrize("name", [f"{noun} list" for noun in NOUNS] + ["vnf list", "service type instance list"])
def test_each_option_that_filters_a_kind_names_an_indexed_field(name, store):
    kind = store.kinds[OWN[name].kind]
    filtering = [action for action in parser_of(name)._actions if action.dest == "filters"]
    fields = [action.type("x").removesuffix("=x") for action in filtering if action.option_strings != ["--filter"]]
    assert fields
    assert set(fields) <= {*kind.filter_indexes, *kind.indexes, "state", "name"} & kind.fields.keys()
    assert all("an id, not a name" in a.help for a in filtering if a.option_strings == ["--project"])
    assert ("--project" in options_of(name)) == ("--all-projects" in options_of(name)) == kind.is_scoped


def test_a_noun_that_a_user_of_openstack_types_is_a_kind(command):
    (vm,) = json.loads(command("server", "list", "--name", "vm", "--state", "active", "--host", "h", "-f", "json"))
    assert vm["Memory MB"] == 4
    assert json.loads(command("instance", "list", "--name", "other", "-f", "json")) == []
    assert json.loads(command("host", "show", "e", "-f", "json")) == json.loads(
        command("entity", "show", "compute_node", "e", "-f", "json")
    )
    short, long = (command("server", "list", *more).splitlines()[1] for more in ((), ("--long",)))
    assert "Memory MB" not in short
    assert "Memory MB" in long


def test_the_history_is_that_of_a_name_or_of_the_id_of_a_deleted_entity(command, cycle):
    rows = json.loads(command("entity", "history", "list", "instance", "vm", "-f", "json"))
    written(cycle, Delete("instance", "e", "2"))
    later = json.loads(command("entity", "history", "list", "instance", "e", "-f", "json"))
    assert [row["Change"] for row in later] == [*(row["Change"] for row in rows), "deleted"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("server lst", "similar: server list, server show"),
        ("volume list", "for a kind of a plugin: entity list volume"),
        ("storage pool show x", "for a kind of a plugin: entity show storage_pool"),
        ("entity list instnce", "did you mean instance?"),
        ("entity list server", "did you mean instance?"),
        ("entity list host", "did you mean compute_node?"),
    ],
)
def test_a_wrong_noun_leads_to_the_right_one(command, words, hint):
    assert hint in command(*words.split(), status=2)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("memory_mb", "Memory MB"), ("disk_gb", "Disk GB"),
        ("id", "ID"), ("last_event_age", "Last Event Age"), ("vnfd_id", "VNFD ID"), ("vcpus", "VCPUs"),
        ("instantiatedVnfInfo", "Instantiated VNF Info"), ("callback-url", "Callback URL"), ("ids", "IDs"),
        ("aPlugInField2", "A Plug In Field2"), ("etag", "ETag"), ("", ""),
    ],
)  # fmt: skip
def test_a_title_is_made_of_the_name_of_a_field(name, shown):
    assert title(name) == shown


def test_a_delta_is_readable_in_a_table():
    delta = Delta({"state": ["a", None], "pods": [[], ["p" * 40, "q" * 40]]})
    assert delta.human_readable() == "state: a -> -\npods changed"
    assert delta.machine_readable()["pods"][0] == []


# The output, of an API that has one or more of everything


@pytest.fixture
def client(client, cycle, store):
    client.register_vnf_instance({"id": "vnf", "name": "b", **DEMO})
    client.register_vnf_instance({"id": "vnf-2", "name": "a", **DEMO})
    values = {"id": "sti", "service_type": "vm", "instance_name": "one", "spec": {"cpus": [1]}}
    client.create_service_type_instance(values)
    client.create_subscription("vnf", {"name": "one", "callback-url": "https://receiver.example.com/", "ids": ["x"]})
    client.test_subscription("vnf", "one")
    client.create_watch_topic({"name": "one", "spec": {"filters": [{"group": "compute", "kind": "*"}]}})
    client.begin_operation("vnf", "SCALE", "me")
    binding = Upsert("provider_binding", "b", "1", {"state": {"provider_name": "p", "source": "s"}})
    kinds = {OWN[f"{noun} list"].kind for noun in NOUNS} - {"instance"}
    server = {
        "state": {"state": "active"}, "details": {"name": "vm"}, "placement": {"host": "h"}, "flavor": {"memory_mb": 4},
    }  # fmt: skip
    others = [Upsert(kind, "e", "1", {store.kinds[kind].anchor: {}}) for kind in kinds]
    written(cycle, binding, Upsert("instance", "e", "1", server), *others)
    cycle.run(Batch(events=[Event(id="1", type="instance.create.end", source="nova", data={"nonsense": 1})]))
    now = datetime.datetime.now(datetime.UTC)
    known = {"engine_group": "g", "host": "h", "pid": 1, "updated_at": now, "since": now}
    rows = [SourceRow(source=name, state="connected", lag=lag, **known) for name, lag in (("edge", None), ("nova", 3))]
    write_sources(store.database, rows)
    for number in (1, 2):
        engine = EngineRow(
            id=f"h/{number}", engine_group="g", host="h", pid=number, release="0.1.0", since=now, heartbeat_at=now,
            seq=1, lag_seconds=0.0, sources=["nova"],
        )  # fmt: skip
        write_engine(store.database, engine)
    for name in ("billing", "bus"):
        write_outlet(store.database, outlet_cursor(outlet=name, since=now, updated_at=now))
    difference = FieldDifference(
        kind="instance", entity_id="i", field="hosts", model_value=["a"], live_value=None, policy="heal"
    )
    replace_drifts(store.database, [difference], source="nova", kinds=["instance"], now=now)
    parking = CommitCycle(store, store.load(), telling(store.kinds))
    waiting = [Upsert("instance", entity_id, "1", {"lock": {"locked": True}}) for entity_id in "ab"]
    parking.run(Batch(events=[told(number, change) for number, change in enumerate(waiting)]))
    return client


@pytest.fixture
def command(client, url, capsys, monkeypatch):
    """Runs ``watcher-sync ...``; gives the output of a command that went well."""
    monkeypatch.setenv("WATCHER_SYNC_ENDPOINT", url)

    def run_it(*arguments, status=0):
        assert run(list(arguments)) == status
        told = capsys.readouterr()
        assert (told.err == "") is (status == 0)
        return told.err if status else told.out

    return run_it


TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[^ \",]*")
THE_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


@pytest.mark.slow
def test_every_list_has_titles_and_values_as_openstack_shows_them(command):
    for name in LISTS:
        text = command(*name.split(), *ARGUMENTS.get(name, []), "-f", "csv", "--quote", "minimal")
        head, *rows = csv.reader(io.StringIO(text))
        assert rows or name == "inventory list", name
        for column in head:
            assert re.fullmatch(r"([A-Z0-9][A-Za-z0-9]*)( [A-Z0-9][A-Za-z0-9]*)*", column), (name, column)
        values = [value for row in rows for value in row]
        assert "None" not in values, name
        for value in values:
            if value.startswith(("{", "[")):
                json.loads(value)
            elif (time := TIME.match(value)) is not None:
                assert THE_FORM.fullmatch(time[0]), (name, value)
        assert "None" not in command(*name.split(), *ARGUMENTS.get(name, []), "-f", "value").split(), name
        assert "None" not in command(*name.split(), *ARGUMENTS.get(name, [])).split(), name


@pytest.mark.slow
def test_every_show_has_values_without_python(command):
    (number,) = json.loads(command("quarantine", "list", "-f", "json"))
    (operation,) = json.loads(command("vnf", "operation", "list", "vnf", "-f", "json"))
    more = {"quarantine show": [str(number["ID"])], "vnf operation show": ["vnf", operation["ID"]]}
    for name in (each for each in OWN if each.endswith(" show")):
        words = [*name.split(), *(more | ARGUMENTS)[name]]
        document = json.loads(command(*words, "-f", "json"))
        values = command(*words, "-f", "value").split("\n")
        for field, value in zip(document, values, strict=False):
            if document[field] is None:
                assert value == "", (name, field)
            elif isinstance(document[field], (list, dict)):
                assert json.loads(value) == document[field], (name, field)
            elif isinstance(document[field], str) and "T" in document[field] and TIME.fullmatch(document[field]):
                assert THE_FORM.fullmatch(document[field]), (name, field)


@pytest.mark.slow
def test_every_list_is_filtered_sorted_and_cut_off_in_one_way(command):
    for name in LISTS:
        words = [*name.split(), *ARGUMENTS.get(name, [])]
        rows = json.loads(command(*words, "-f", "json"))
        if not rows:
            continue
        field = MARKERS.get(name, "id")
        key = title(field)
        expected = sorted((row[key] for row in rows), reverse=True)
        descending = json.loads(command(*words, "--sort", f"{field}:desc", "-f", "json"))
        if name != "entity history list":
            assert [row[key] for row in descending] == expected, name
        assert len(json.loads(command(*words, "--limit", "1", "-f", "json"))) == 1, name
        first = descending[0][key]
        only = json.loads(command(*words, "--filter", f"{field}={first}", "-f", "json"))
        assert [row[key] for row in only] == [first], name
        others = json.loads(command(*words, "--filter", f"{field}!={first}", "-f", "json"))
        assert sorted((row[key] for row in others), reverse=True) == expected[1:], name
        rest = json.loads(command(*words, "--sort", f"{field}:desc", "--marker", str(first), "-f", "json"))
        assert [row[key] for row in rest] == expected[1:], name


def test_an_unknown_field_is_refused_with_the_fields(command):
    for name in ("source list", "drift list", "event list", "watch topic list"):
        words = [*name.split(), *ARGUMENTS.get(name, [])]
        assert "no field 'colour'; the fields are " in command(*words, "--filter", "colour=red", status=2)
        assert "no field 'colour'" in command(*words, "--sort", "colour", status=2)


def test_values_are_compared_in_the_type_of_their_field(command):
    def found(*filters):
        words = [word for each in filters for word in ("--filter", each)]
        return [row["Source"] for row in json.loads(command("source", "list", *words, "-f", "json"))]

    assert found("lag>2") == ["nova"]
    assert found("lag<2") == []
    assert found("lag!=3") == ["edge"], "an unknown value is another one"
    assert found("source in edge,moon") == ["edge"]
    assert found("source not in edge,moon") == ["nova"]
    assert found("source~no", "state=connected") == ["nova"]
    assert found("since>2020-01-01T00:00:00Z", "reconnects=0") == ["edge", "nova"]
    assert found("fresh=true") == found("fresh!=false")
    assert "lag" in command("source", "list", "--filter", "lag=many", status=2)
    assert "moon" in command("source", "list", "--marker", "moon", status=2)
    assert found("source=edge") == [json.loads(command("source", "list", "--limit", "1", "-f", "json"))[0]["Source"]]


def test_a_column_is_chosen_by_its_title_or_by_the_name_of_its_field(command):
    for column in ("Last Event Age", "last_event_age", "last event age"):
        assert command("source", "list", "-f", "csv", "-c", column).splitlines()[0] == '"Last Event Age"'
    assert "no column 'moon'" in command("source", "list", "-c", "moon", status=2)


# Writing


def shown(command, *words):
    return json.loads(command(*words, "-f", "json"))


def test_a_vnf_instance_is_set_and_unset_and_the_rest_stays(command):
    before = shown(command, "vnf", "show", "vnf-2")
    after = shown(command, "vnf", "set", "vnf-2", "--name", "new", "--vnf-provider", "me",
                  "--vdu", "VDU2=Deployment/vdu2,initial=1")  # fmt: skip
    assert (after["name"], after["vnf_provider"]) == ("new", "me")
    assert after["vdus"] == {**before["vdus"], "VDU2": {**after["vdus"]["VDU2"]}}
    assert after["aspects"] == before["aspects"]
    after = shown(command, "vnf", "unset", "vnf-2", "--vnf-provider", "--vdu", "VDU2")
    assert (after["name"], after["vnf_provider"], after["vdus"]) == ("new", None, before["vdus"])
    assert "no vdu 'VDU9'" in command("vnf", "unset", "vnf-2", "--vdu", "VDU9", status=2)
    assert "at least one" in command("vnf", "unset", "vnf-2", status=2)
    assert "at least one" in command("vnf", "set", "vnf-2", status=2)
    assert "does not exist" in command("vnf", "set", "moon", "--name", "x", status=1)


@pytest.mark.slow
def test_a_service_type_instance_is_created_set_unset_and_deleted(command):
    words = ("service", "type", "instance")
    made = shown(command, *words, "create", "vm", "--id", "new", "--name", "n", "--spec", '{"a": 1}')
    assert (made["service_type"], made["instance_name"], made["spec"]) == ("vm", "n", {"a": 1})
    changed = shown(command, *words, "set", "new", "--provider", "p", "--if-match", made["etag"])
    assert (changed["provider_name"], changed["spec"]) == ("p", {"a": 1})
    assert "If-Match" in command(*words, "set", "new", "--provider", "q", "--if-match", made["etag"], status=1)
    cleared = shown(command, *words, "unset", "new", "--name", "--spec")
    assert (cleared["instance_name"], cleared["spec"], cleared["provider_name"]) == (None, None, "p")
    listed = shown(command, *words, "list", "--filter", "service_type=vm", "--sort", "id:desc", "--fields", "id")
    assert [row["ID"] for row in listed] == ["sti", "new"]
    assert "moon" in command(*words, "delete", "new", "moon", status=1)
    assert [row["ID"] for row in shown(command, *words, "list", "--fields", "id")] == ["sti"]


def test_properties_of_a_subscription_are_removed(command):
    words = ("subscription", "unset", "vnf", "one")
    assert shown(command, *words, "--id")["ids"] is None
    assert "at least one" in command(*words, status=2)


def test_completion_is_a_script_that_knows_every_command(capsys, monkeypatch):
    monkeypatch.delenv("WATCHER_SYNC_ENDPOINT", raising=False)
    assert run(["complete"]) == 0
    script = capsys.readouterr().out
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in OWN:
        *parents, last = name.split()
        assert re.search(rf"cmds(_{'_'.join(parents)})?='[^']*\b{last}\b", script), name


# An empty list


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_an_empty_list_takes_the_columns_of_a_list_of_its_kind_and_no_others(command, name):
    words = [*name.split(), *ARGUMENTS.get(name, [])]
    empty = [*words, "--filter", f"{MARKERS.get(name, 'id')}=0"]
    (columns,) = csv.reader(command(*words, "-f", "csv").splitlines()[:1])
    (of_empty,) = csv.reader(command(*empty, "-f", "csv").splitlines())
    # A field that an entity may lack is a column, too.
    assert set(columns) <= set(of_empty)
    last = columns[-1]
    for more, shown in (
        (["-f", "json"], "[]"),
        (["-f", "json", "--noindent"], "[]"),
        (["-f", "yaml"], "[]"),
        (["-f", "value", "--sort-column", last], ""),
        (["-f", "csv", "--quote", "all"], f'"{last}"'),
    ):
        assert command(*empty, "-c", last, *more).strip() == shown, more
    edge = f"+{'-' * (len(last) + 2)}+"
    assert command(*empty, "-c", last).strip() in ("", f"{edge}\n| {last} |\n{edge}")
    for each in (words, empty):
        assert "there is no column 'nonsense'" in command(*each, "-c", "nonsense", status=2)
