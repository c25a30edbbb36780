# SPDX-License-Identifier: Apache-2.0
"""``openstack watcher-sync`` and openstacksdk with a real Keystone: a login, the catalog, the API under gunicorn."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import openstack
import pytest
from openstack import exceptions

from tests.functional.client.conftest import run
from tests.functional.security.keystone import Keystone, User, running_keystone
from tests.functional.security.serving import documented_api
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.waiting import PATIENCE_SECONDS, deadline
from watcher_sync.client import sdk
from watcher_sync.testing.kinds import builtin_kinds

# The first test includes the installation of Keystone.
pytestmark = [pytest.mark.rare, pytest.mark.timeout(400)]

BOTH = pytest.mark.parametrize("program", [("openstack", "watcher-sync"), ("watcher-sync",)], ids=" ".join)


class Cloud:
    """A Keystone whose catalog has the API, and the users of the tests: anna in red, bert in blue."""

    def __init__(self, keystone: Keystone, url: str) -> None:
        self.keystone = keystone
        self.url = url
        self.red, self.blue = keystone.project("red"), keystone.project("blue")
        self.anna, self.bert = keystone.user("anna", self.red, "member"), keystone.user("bert", self.blue, "member")

    def ask(self, user: User, project: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, whom the environment names.

        :param project: the name of a project.
        :param more: of the environment.
        """
        names = {"OS_USERNAME": user.name, "OS_PASSWORD": user.password, "OS_PROJECT_NAME": project, **more}
        return run(*words, **(self.keystone.environment() | names))


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("site")
    database = f"sqlite:///{folder / 'watcher-sync.sqlite'}"
    store = migrate(opened(database, builtin_kinds()))
    store.close()
    store.database.dispose()
    config = folder / "watcher-sync.conf"
    with running_keystone(folder / "keystone") as keystone:
        config.write_text(f"{keystone.configuration()}[database]\nconnection = {database}\n")
        with documented_api(config) as api:
            url = str(api.base_url).rstrip("/")
            keystone.register(url)
            yield Cloud(keystone, url)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that failed says."""
    assert done.returncode in (1, 2), done.stdout
    assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr
    return done.stderr


def test_members_see_their_project_and_an_administrator_sees_all(cloud: Cloud, tmp_path: Path) -> None:
    noun = ("openstack", "watcher-sync", "service", "type", "instance")
    for user, project in ((cloud.anna, "red"), (cloud.bert, "blue")):
        made = cloud.ask(user, project, *noun, "create", "vm", "--name", f"of-{project}", "--spec", "{}")
        assert made.returncode == 0, made.stderr
    listed = cloud.ask(cloud.anna, "red", *noun, "list", "-f", "json", "--fields", "instance_name,project_id")
    assert listed.returncode == 0, listed.stderr
    assert [row["Project ID"] for row in json.loads(listed.stdout)] == [cloud.red]
    # The administrator's account is one of clouds.yaml.
    admin = cloud.keystone.environment()
    auth = {name.removeprefix("OS_").lower(): value for name, value in admin.items() if "API" not in name}
    file = tmp_path / "clouds.yaml"
    file.write_text(json.dumps({"clouds": {"edge": {"region_name": "RegionOne", "auth": auth}}}))
    listed = run(
        noun[0], "--os-cloud", "edge", *noun[1:], "list", "-f", "json", "--fields", "instance_name,project_id",
        OS_CLIENT_CONFIG_FILE=str(file),
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert {row["Project ID"] for row in json.loads(listed.stdout)} == {cloud.red, cloud.blue}
    assert "compute_nodes" in one_line(cloud.ask(cloud.anna, "red", *noun[:2], "host", "list"))


@BOTH
def test_a_wrong_password_is_one_line(cloud: Cloud, program: tuple[str, ...]) -> None:
    message = one_line(cloud.ask(cloud.anna, "red", *program, "source", "list", OS_PASSWORD="wrong"))
    assert "The request you have made requires authentication" in message
    assert "wrong" not in message


@BOTH
def test_a_role_that_the_policy_does_not_know_is_forbidden_in_one_line(cloud: Cloud, program: tuple[str, ...]) -> None:
    project = cloud.keystone.project(f"observed-by-{len(program)}")
    user = cloud.keystone.user(f"observer-{len(program)}", project, "load-balancer_observer")
    message = one_line(cloud.ask(user, f"observed-by-{len(program)}", *program, "instance", "list"))
    assert "instance" in message


@BOTH
def test_a_catalog_without_the_service_says_what_to_register(cloud: Cloud, program: tuple[str, ...]) -> None:
    cloud.keystone.enable_service("watcher-sync", False)
    try:
        message = one_line(cloud.ask(cloud.anna, "red", *program, "pod", "list"))
        named = cloud.ask(cloud.anna, "red", *program, "pod", "list", WATCHER_SYNC_ENDPOINT=cloud.url)
    finally:
        cloud.keystone.enable_service("watcher-sync", True)
    assert "openstack endpoint create" in message
    assert named.returncode == 0, named.stderr


def test_openstacksdk_and_openstack_share_one_clouds_yaml(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    green = cloud.keystone.project("green")
    clouds = {
        name: {
            "region_name": "RegionOne",
            "auth": {
                "auth_url": cloud.keystone.url, "username": user.name, "password": user.password,
                "project_name": "green", "user_domain_id": "default", "project_domain_id": "default",
            },
        }
        for name, user in (
            ("member", cloud.keystone.user("carl", green, "member")),
            ("observer", cloud.keystone.user("dora", green, "load-balancer_observer")),
        )
    }  # fmt: skip
    file = tmp_path / "clouds.yaml"
    file.write_text(json.dumps({"clouds": clouds}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))

    def of_openstack(*words: str) -> object:
        noun = ("watcher-sync", "service", "type", "instance")
        done = run("openstack", "--os-cloud", "member", *noun, *words, "-f", "json", OS_CLIENT_CONFIG_FILE=str(file))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with openstack.connect(cloud="member") as conn, openstack.connect(cloud="observer") as observer:
        for connection in (conn, observer):
            connection.add_service(sdk.WatcherSync())
        service = conn.watcher_sync
        kind, patience, absent, found = "service_type_instance", deadline(PATIENCE_SECONDS), threading.Event(), []

        def is_there(entity: sdk.WatcherSyncResource | None) -> bool:
            if entity is None:
                absent.set()
            return entity is not None

        waiting = threading.Thread(
            target=lambda: found.append(service.wait_for(kind, "late", is_there, timeout=patience)), daemon=True
        )
        waiting.start()
        assert absent.wait(patience)
        of_openstack("create", "vm", "--name", "late", "--spec", "{}")
        waiting.join(patience)
        assert (found[0].instance_name, found[0].project_id) == ("late", green)
        assert [each.id for each in service.entities(kind)] == [found[0].id]
        assert [row["ID"] for row in of_openstack("list")] == [found[0].id]  # type: ignore[attr-defined]
        assert service.find_entity(kind, "late") == service.get_entity(kind, found[0].id) == found[0]
        assert service.find_entity(kind, "early") is None

        made = service.create_subscription(found[0], name="one", callback_url="https://receiver.example.com/")
        assert [each.id for each in service.subscriptions()] == [made.id]
        service.delete_subscription(found[0], "one")

        with pytest.raises(exceptions.ForbiddenException, match=r"Forbidden: .*compute_nodes"):
            list(service.entities("compute_node"))
        with pytest.raises(exceptions.ForbiddenException, match="Forbidden"):
            list(observer.watcher_sync.entities(kind))
    cloud.keystone.enable_service("watcher-sync", False)
    try:
        with openstack.connect(cloud="member") as conn:
            conn.add_service(sdk.WatcherSync())
            with pytest.raises(exceptions.ServiceDisabledException, match="watcher-sync service in RegionOne"):
                list(conn.watcher_sync.entities(kind))
    finally:
        cloud.keystone.enable_service("watcher-sync", True)
