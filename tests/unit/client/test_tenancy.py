# SPDX-License-Identifier: Apache-2.0
"""What the client and its commands do for a user of one project."""

from __future__ import annotations

import json

import pytest
from keystoneauth1 import adapter, session
from keystoneauth1.token_endpoint import Token
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.client.conftest import served
from tests.unit.security.callers import OTHER, OWN, SERVER, Api
from watcher_sync.client import Client, Forbidden
from watcher_sync.client.shell import run
from watcher_sync.client.stats import ModelStats


@pytest.fixture
def api(conf, store):
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        yield api


@pytest.fixture
def url(api):
    with served(api.application) as url:
        yield url


@pytest.fixture
def client(api, url):
    """Makes the client of a caller."""

    def make(caller):
        plugin = Token(url, api.headers(caller)["X-Auth-Token"])
        return Client(adapter.Adapter(session.Session(auth=plugin)))

    return make


@pytest.fixture
def command(api, url, capsys):
    """Runs a command of a caller; its exit status, its output, and its errors."""

    def run_it(caller, *argv):
        token = api.headers(caller)["X-Auth-Token"]
        status = run(["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", token, *argv])
        told = capsys.readouterr()
        return status, told.out, told.err

    return run_it


def test_lists_changes_and_drifts_of_all_projects_are_refused_or_given_as_asked(api, client):
    api.made("vnf_instances", project_id=OTHER)
    reader, admin = client("reader"), client("admin")
    for read in (
        lambda client: list(client.entities("vnf_instance", all_projects=True)),
        lambda client: client.events_page(0, all_projects=True),
        lambda client: next(client.events(0, all_projects=True)),
        lambda client: list(client.drifts(all_projects=True)),
    ):
        with pytest.raises(Forbidden, match="all_projects"):
            read(reader)
        assert read(admin)
    assert list(admin.entities("vnf_instance", all_projects=False)) == []
    assert {change.project_id for change in reader.events_page(0).events} == {OWN}


def test_the_statistics_of_a_user_omit_what_the_policy_refuses(client):
    snapshot = ModelStats(client("reader")).read()
    assert snapshot.counts["instance"] == 1
    assert "compute_node" not in snapshot.counts
    assert snapshot.sources == []
    assert {change.id for change in snapshot.changes} >= {SERVER}
    assert ModelStats(client("system_reader")).read().counts["compute_node"] == 1


def test_a_refused_command_prints_one_line(command):
    for argv in (["entity", "list", "compute_node"], ["source", "list"], ["vnf", "list", "--all-projects"]):
        status, out, err = command("reader", *argv)
        assert (status, out) == (1, "")
        # The server runs in this process, and what it logs is there, too.
        (line,) = (line for line in err.splitlines() if line.startswith("error: "))
        assert line.startswith("error: The policy does not allow the request: ")
        assert "Traceback" not in err


def test_an_administrator_registers_for_a_project_and_lists_all_projects(command):
    options = ["--cluster", "edge", "--namespace", "n", "--vnfd-id", "v", "--vdu", "a=Deployment/a,initial=1"]
    status, out, _ = command("admin", "vnf", "create", *options, "--project", OTHER, "--format", "json")
    assert (status, json.loads(out)["project_id"]) == (0, OTHER)
    status, out, _ = command("admin", "vnf", "list", "--all-projects", "-f", "json")
    assert [row["Project ID"] for row in json.loads(out)] == [OTHER]
    assert command("member", "vnf", "create", *options, "--project", OTHER)[0] == 1
    status, out, _ = command("reader", "entity", "list", "instance", "-f", "value", "-c", "id")
    assert (status, out.split()) == (0, [SERVER])
