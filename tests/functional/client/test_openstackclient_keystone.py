# SPDX-License-Identifier: Apache-2.0
"""``openstack watcher-sync`` with a real Keystone: a login, the endpoint of the catalog, the API under gunicorn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.client.conftest import run
from tests.functional.security.keystone import Keystone, User, running_keystone
from tests.functional.security.serving import documented_api
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from watcher_sync.model.entities import builtin_kinds

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
