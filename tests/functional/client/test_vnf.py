# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync vnf`` as an operator runs it against a live API."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from tests.functional.client.conftest import BIN, Site, environment, run_here
from tests.functional.client.conftest import run as run_executable
from tests.functional.client.test_commands import failed, made
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.syncing import syncing_with
from tests.unit.extensions.vnf.api.test_instances import DEMO, demo
from tests.unit.extensions.vnf.api.test_sync import REPORT, Syncing
from tests.waiting import deadline
from watcher_sync.assembly.api import make_application
from watcher_sync.client import Client, connect
from watcher_sync.cmd.api_server import listen
from watcher_sync.conf import opts
from watcher_sync.testing.kinds import builtin_kinds

OPTIONS = (
    "--cluster", "edge", "--namespace", "default", "--vnfd-id", "helloworld3", "--flavour-id", "simple",
    "--name", "demo", "--vdu", "VDU1=Deployment/vdu1,initial=1,min=1,max=3", "--aspect", "vdu1_aspect=2:VDU1=1",
)  # fmt: skip
"""What DEMO says."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running API over an empty database, for all tests here."""
    folder = tmp_path_factory.mktemp("vnf")
    store = opened(f"sqlite:///{folder / 'watcher-sync.sqlite'}", builtin_kinds())
    migrate(store)
    site = Site(store, folder)
    try:
        site.start()
        yield site
    finally:
        site.stop()
        store.close()
        store.database.dispose()


@pytest.fixture(scope="module")
def syncing_url(site: Site) -> Iterator[str]:
    """The same API beside it, with something that syncs."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    server = listen(make_application(conf, site.store, extensions=syncing_with(Syncing(site.store))), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(deadline(60))


@pytest.fixture
def client(site: Site) -> Client:
    """To look at what the commands did."""
    return connect(site.url)


@pytest.fixture
def vnf_id(client: Client) -> Iterator[str]:
    """An instance, and none afterwards."""
    yield client.register_vnf_instance(DEMO).entity["id"]
    for entity in client.entities("vnf_instance"):
        for operation in client.operations(entity["id"]):
            if operation.state == "RUNNING":
                client.end_operation(entity["id"], operation.id, force=True)
        client.delete_vnf_instance(entity["id"])


def vnf(site: Site, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_executable("watcher-sync", "--endpoint", site.url, "vnf", *arguments, **variables)


def vnf_here(site: Site, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_here("--endpoint", site.url, "vnf", *arguments, **variables)


@pytest.mark.usefixtures("vnf_id")
def test_an_instance_is_registered_by_options_by_a_file_and_by_stdin(site: Site, tmp_path: Path) -> None:
    as_json, as_yaml = tmp_path / "demo.json", tmp_path / "demo.yaml"
    as_json.write_text(json.dumps(DEMO))
    as_yaml.write_text(yaml.safe_dump(demo(id="by-yaml")))
    registered = [
        json.loads(made(vnf(site, "create", *OPTIONS, "-f", "json"))),
        json.loads(made(vnf(site, "create", "-f", str(as_json), "-f", "json", "--id", "by-json"))),
        yaml.safe_load(made(vnf(site, "create", "--file", str(as_yaml), "--format", "yaml"))),
    ]
    piped = subprocess.run(
        [BIN / "watcher-sync", "--endpoint", site.url, "vnf", "create", "-f", "-", "--format", "json"],
        input=yaml.safe_dump(DEMO), capture_output=True, text=True, timeout=deadline(60), check=False,
        env=environment(),
    )  # fmt: skip
    registered.append(json.loads(made(piped)))
    assert [r["id"] for r in registered[1:3]] == ["by-json", "by-yaml"]
    for one in registered:
        assert "levels" not in one
        assert {name: one[name] for name in DEMO} == DEMO
        assert json.loads(made(vnf(site, "show", one["id"], "-f", "json"))) == one


def test_a_list_has_every_format_and_is_narrowed(site: Site, client: Client, vnf_id: str) -> None:
    core = client.register_vnf_instance(demo(cluster="core", id="core-1")).entity["id"]
    listed = json.loads(made(vnf(site, "list", "-f", "json")))
    assert {v["ID"] for v in listed} == {vnf_id, core}
    assert yaml.safe_load(made(vnf(site, "list", "-f", "yaml"))) == listed
    rows = list(csv.DictReader(io.StringIO(made(vnf(site, "list", "-f", "csv")))))
    assert [(r["ID"], json.loads(r["VDUs"])["VDU1"]["initial"]) for r in rows] == [(v["ID"], 1) for v in listed]
    command = ("list", "-f", "value", "-c", "id")
    assert made(vnf(site, *command, "--cluster", "core")).split() == [core]
    assert made(vnf(site, *command, "--state", "UNKNOWN", "--sort=-id", "--limit", "1")).split() == [max(vnf_id, core)]
    assert made(vnf(site, *command, "--namespace", "none", "--vnfd-id", "x")).split() == []
    assert core in made(vnf(site, "list"))


def test_an_instance_is_shown_to_people_as_the_options_would_say_it(site: Site, vnf_id: str) -> None:
    table = made(vnf(site, "show", vnf_id))
    assert "VDU1=Deployment/vdu1,initial=1,min=1,max=3" in table
    assert "vdu1_aspect=2:VDU1=1" in table
    assert "instantiatedVnfInfo" not in table
    assert "maxScaleLevels" in made(vnf(site, "show", vnf_id, "-c", "instantiatedVnfInfo"))


def test_a_registration_is_changed_only_where_it_exists_and_is_what_was_seen(
    site: Site, client: Client, vnf_id: str, tmp_path: Path
) -> None:
    tag = client.stored("vnf_instance", vnf_id).etag
    assert json.loads(made(vnf_here(site, "show", vnf_id, "-f", "json")))["etag"] == tag
    file = tmp_path / "demo.json"
    file.write_text(json.dumps(demo(id=vnf_id, name="new")))
    new = json.loads(made(vnf_here(site, "set", vnf_id, "--file", str(file), "--if-match", tag, "-f", "json")))
    assert (new["name"], new["etag"] != tag) == ("new", True)
    assert "If-Match" in failed(vnf_here(site, "set", vnf_id, *OPTIONS, "--if-match", tag), 1)
    assert "vnf_instance missing does not exist" in failed(vnf_here(site, "set", "missing", *OPTIONS), 1)
    assert "ID: missing is not the id in the file" in failed(vnf_here(site, "set", "missing", "--file", str(file)), 2)
    assert client.stored("vnf_instance", vnf_id).entity["name"] == "new"
    assert "If-Match" in failed(vnf_here(site, "delete", vnf_id, "--if-match", tag), 1)
    assert made(vnf_here(site, "delete", vnf_id, "--if-match", new["etag"].strip('"'))) == ""
    assert "does not exist" in failed(vnf_here(site, "delete", vnf_id), 1)


def test_an_operation_has_the_instance_until_it_ends(site: Site, client: Client, vnf_id: str, tmp_path: Path) -> None:
    def operation(verb: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return vnf_here(site, "operation", verb, vnf_id, *arguments, **variables)

    begun = json.loads(made(operation("create", "SCALE", "--holder", "lcm-1", "-f", "json")))
    assert (begun["operation"], begun["holder"], begun["state"]) == ("SCALE", "lcm-1", "RUNNING")
    assert "lcm-1 holds it for SCALE" in failed(operation("create", "HEAL"), 1)
    assert "lcm-1 holds it for SCALE" in failed(vnf_here(site, "delete", vnf_id), 1)
    assert "lcm-1 holds it for SCALE" in failed(vnf_here(site, "set", vnf_id, *OPTIONS), 1)
    token = str(begun["token"])
    assert "secret of the operation is needed" in failed(operation("end", begun["id"]), 2)
    assert "secret of the operation is needed" in failed(vnf_here(site, "set", vnf_id, *OPTIONS, "--token", token), 2)
    (tmp_path / "secret").write_text(begun["secret"] + "\n")
    made(vnf_here(site, "set", vnf_id, *OPTIONS, "--token", token, "--secret-file", str(tmp_path / "secret")))
    own = {"WATCHER_SYNC_OPERATION_SECRET": begun["secret"]}
    beaten = json.loads(made(operation("heartbeat", begun["id"], "--token", token, "-f", "json", **own)))
    assert beaten["expires_at"] > begun["expires_at"]
    assert "not the token" in failed(operation("heartbeat", begun["id"], "--token", str(begun["token"] + 1), **own), 1)
    assert made(operation("end", begun["id"], "--token", token, "--state", "FAILED", **own)) == ""
    assert "FAILED" in failed(operation("heartbeat", begun["id"], **own), 1)
    assert json.loads(made(operation("show", begun["id"], "-f", "json")))["state"] == "FAILED"
    again = json.loads(made(operation("create", "HEAL", "-f", "json")))
    assert "@" in again["holder"]
    assert "another caller" in failed(operation("end", again["id"], **own), 1)
    made(operation("end", again["id"], "--force"))
    listed = json.loads(made(operation("list", "-f", "json")))
    assert [(o["Operation"], o["State"]) for o in listed] == [("SCALE", "FAILED"), ("HEAL", "COMPLETED")]
    assert made(operation("list", "--marker", token, "-f", "value", "-c", "operation")).split() == ["HEAL"]
    assert client.stored("vnf_instance", vnf_id).entity["name"] == "demo"


def test_a_failed_operation_that_blocks_the_sync_is_shown_until_the_registration_is_written(
    site: Site, vnf_id: str
) -> None:
    def shown() -> dict[str, Any]:
        columns = ("-c", "sync_after_failure", "-c", "failed_operation")
        found: dict[str, Any] = json.loads(made(vnf_here(site, "show", vnf_id, "-f", "json", *columns)))
        return found

    assert shown() == {"sync_after_failure": True, "failed_operation": None}
    made(vnf_here(site, "set", vnf_id, "--no-sync-after-failure"))
    begun = json.loads(made(vnf_here(site, "operation", "create", vnf_id, "HEAL", "--holder", "lcm-1", "-f", "json")))
    own = {"WATCHER_SYNC_OPERATION_SECRET": begun["secret"]}
    made(vnf_here(site, "operation", "end", vnf_id, begun["id"], "--state", "FAILED_TEMP", **own))
    found = shown()
    assert found["sync_after_failure"] is False
    failed_one = found["failed_operation"]
    assert (failed_one["id"], failed_one["holder"], failed_one["state"]) == (begun["id"], "lcm-1", "FAILED_TEMP")
    made(vnf_here(site, "set", vnf_id, "--name", "demo"))
    assert shown() == {"sync_after_failure": False, "failed_operation": None}


def test_a_sync_tells_what_was_found(site: Site, client: Client, vnf_id: str, syncing_url: str) -> None:
    def sync(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_executable("watcher-sync", "--endpoint", syncing_url, "vnf", "sync", vnf_id, *arguments)

    found = json.loads(made(sync("-f", "json")))
    assert (found["vnf_instance_id"], found["dry_run"], found["changed"]) == (vnf_id, False, True)
    assert found["vdu_results"] == REPORT.vdu_results
    assert [pod["new"] for pod in found["pods"]] == [pod.new for pod in REPORT.pods]
    table = made(sync("--dry-run"))
    for line in ("VDU1: DRIFTED, no level", "vdu1-5d8f-aaaaa -> vdu1-5d8f-bbbbb", "- -> vdu1-5d8f-ccccc"):
        assert line in table
    assert "state: UNKNOWN -> DRIFTED" in table
    client.begin_operation(vnf_id, "SCALE", "lcm-1")
    assert "lcm-1 holds it for SCALE" in failed(sync(), 1)
    assert json.loads(made(sync("--dry-run", "-f", "json")))["dry_run"] is True


def test_a_sync_of_a_server_that_has_no_such_cluster_fails_in_one_line(site: Site, vnf_id: str) -> None:
    failed(vnf(site, "sync", vnf_id), 1)
    assert "vnf_instance missing does not exist" in failed(vnf(site, "sync", "missing"), 1)


WRONG = (
    ("create", "--cluster"),
    ("create --vdu VDU1", "--vdu"),
    ("create --aspect a", "--aspect"),
    ("create -f nowhere.yaml", "nowhere.yaml"),
    ("create -f nowhere.yaml --name x", "--name"),
    ("set", "ID"),
    ("set a --token x --file y", "--token"),
    ("operation create a", "OPERATION"),
    ("operation end a", "OPERATION-ID"),
    ("operation", "no command 'vnf operation'"),
    ("sync", "ID"),
    ("list --sort nothing", "sort"),
)


def test_wrong_usage_is_one_line_and_status_2(site: Site) -> None:
    for command, says in WRONG:
        assert says in failed(vnf_here(site, *command.split()), 2)


def test_a_registration_that_makes_no_sense_is_refused_naming_the_field(site: Site, client: Client) -> None:
    said = failed(vnf_here(site, "create", *OPTIONS, "--vdu", "VDU2=CronJob/x,initial=1"), 2)
    assert "vdus/VDU2/workload/kind: is not one of Pod, Deployment" in said
    said = failed(vnf_here(site, "create", *OPTIONS, "--aspect", "b=1:VDU9=1"), 2)
    assert "aspects/b/deltas/VDU9: is no VDU of this registration" in said
    assert list(client.entities("vnf_instance")) == []


def openstack(site: Site, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON under ``openstack``."""
    options = ("--os-auth-type", "none", "--os-endpoint", site.url, "watcher-sync", "vnf")
    done = run_executable("openstack", *options, *arguments, "-f", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("vnf_id")
def test_the_commands_are_openstacks_too(site: Site) -> None:
    instance = openstack(site, "create", "--id", "by-osc", *OPTIONS)
    assert {name: instance[name] for name in DEMO} == DEMO


def test_tackers_commands_list_and_show_an_instance(site: Site, vnf_id: str) -> None:
    options = ("--os-auth-type", "none", "--os-endpoint", site.url, "--os-tacker-api-version", "2", "vnflcm")

    def tacker(*arguments: str) -> Any:
        done = run_executable("openstack", *options, *arguments, "-f", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    (listed,) = [row for row in tacker("list") if row["ID"] == vnf_id]
    assert (listed["VNF Instance Name"], listed["VNFD ID"]) == ("demo", "helloworld3")
    assert listed["Instantiation State"] == "INSTANTIATED"
    shown = tacker("show", vnf_id)
    assert (shown["ID"], shown["VNFD ID"]) == (vnf_id, "helloworld3")
    assert shown["Instantiated Vnf Info"]["flavourId"] == "simple"


@pytest.mark.rare
def test_the_commands_of_operations_are_openstacks_too(site: Site, vnf_id: str) -> None:
    assert openstack(site, "operation", "create", vnf_id, "SCALE")["state"] == "RUNNING"
