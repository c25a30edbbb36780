# SPDX-License-Identifier: Apache-2.0
"""A policy file opens nothing by a mistake, and no rule of it replaces a token."""

from __future__ import annotations

import json
import logging
import os
import re

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy
from oslo_upgradecheck.upgradecheck import Code

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.security.callers import Api
from watcher_sync.api.http import openapi, policy_files
from watcher_sync.api.http.rules import EVERYBODY, rules_of
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_application, make_routes
from watcher_sync.cmd import outlet_services
from watcher_sync.cmd.checks import upgrade
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import ConfigError

PUBLIC = {"page:show", "versions:show", "login:create", "schemas:list", "schemas:show"}
"""What is public by its declaration."""


@pytest.fixture
def operations(conf, store):  # noqa: F811
    return list(openapi.operations(make_routes(Service(conf, store), load_handlers(conf))))


@pytest.fixture
def written(conf, tmp_path):  # noqa: F811
    """Writes the policy file that the configuration names."""
    file = tmp_path / "policy.yaml"
    policy.Enforcer(conf)  # registers the options
    conf.set_override("policy_file", str(file), group="oslo_policy")

    def write(text):
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("check", ["", "@", "not !", "not role:nothing"])
def test_no_rule_replaces_a_token_but_for_what_is_public_by_declaration(conf, store, written, operations, check):  # noqa: F811
    names = {rule.name for rule in rules_of(operations)}
    written(json.dumps(dict.fromkeys(names, check)))
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        open_to_all = set()
        for template, method, op in operations:
            path = template.replace("{version}", "v1alpha1").replace("{", "").replace("}", "")
            if api("nobody", method.upper(), path).status_code != 401:
                open_to_all.update(rule.name for rule in op.rules)
        assert open_to_all == PUBLIC
        assert api("service", "GET", "/v1/compute_nodes").status_code == 200


def test_the_policy_closes_what_is_public(conf, store, written):  # noqa: F811
    written("page:show: 'role:reader'\nversions:show: '!'\n")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        for caller, page, versions in (("nobody", 401, 401), ("reader", 200, 403)):
            assert api(caller, "GET", "/").status_code == page
            assert api(caller, "GET", "/openapi.json").status_code == versions


def test_without_authentication_each_rule_of_a_file_still_decides(conf, store, written):  # noqa: F811
    from tests.unit.api.conftest import Client

    written("instances:list: '!'\nhosts_only: role:reader\ncompute_nodes:list: 'rule:hosts_only'\n")
    client = Client(make_application(conf, store))
    assert client.simulate_get("/v1/instances").status_code == 403
    assert client.simulate_get("/v1/compute_nodes").status_code == 200


MISTAKES = [
    ("quarantine:shwo: role:admin", "there is no rule 'quarantine:shwo'; did you mean 'quarantine:show'?"),
    ("Quarantine:show: role:admin", "there is no rule 'Quarantine:show'; did you mean 'quarantine:show'?"),
    ("default: '!'", "there is no rule 'default'"),
    ("true: '!'", "there is no rule 'True'"),
    ("quarantine:show: rule:adminn", "quarantine:show: there is no rule 'adminn'"),
    ("quarantine:show: not rule:adminn", "quarantine:show: there is no rule 'adminn'"),
    ("quarantine:show: role:admin or (role:a and not rule:adminn)", "quarantine:show: there is no rule 'adminn'"),
    ("helper: rule:adminn\nquarantine:show: rule:helper", "helper: there is no rule 'adminn'"),
    ("quarantine:show: rule:helper\nhelper: not rule:helper", "helper: it refers to itself"),
    ("quarantine:show:", "quarantine:show: None is no text"),
    ("quarantine:show: no", "quarantine:show: False is no text"),
    ("quarantine:show: 0", "quarantine:show: 0 is no text"),
    ("quarantine:show: []", "quarantine:show: [] is no text"),
    ("quarantine:show: [[role:admin]]", "quarantine:show: [['role:admin']] is no text"),
    ("quarantine:show: role:admin or", "quarantine:show: 'role:admin or' cannot be understood"),
    ("quarantine:show: admin", "quarantine:show: 'admin' cannot be understood"),
    ("quarantine:show: not admin", "quarantine:show: 'not admin' cannot be understood"),
    ("quarantine:show: not rol:admin", "quarantine:show: a caller has no 'rol'"),
    ("instances:show: not project_id:%(tenant_id)s", "instances:show: nothing has a 'tenant_id'"),
    ("- quarantine:show", "it is no mapping of rules"),
    ("role:admin", "it is no mapping of rules"),
    ("quarantine:show: [", "it is no YAML"),
    ("quarantine:show: '@'\nquarantine:show: '!'", "it has 'quarantine:show' twice"),
]


@pytest.mark.parametrize(("text", "mistake"), MISTAKES)
def test_a_mistake_in_a_policy_file_is_an_error_at_the_start_with_its_name(conf, store, written, text, mistake):  # noqa: F811
    file = written(f"{text}\n")
    with pytest.raises(ConfigError) as raised:
        make_application(conf, store)
    assert f"[oslo_policy] policy_file: {file}: {mistake}" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# a comment only\n",
        "quarantine:show: '!'",
        "quarantine:show: '@'",
        "quarantine:show: ''",
        "ours: role:ours\nquarantine:show: rule:ours or not rule:reader_of_all\nreader_of_all: rule:ours",
        "quarantine:show: 'role:admin or ! or (role:b and not !)'",
        "instances:show: \"user_id:abc or 'Member':%(project_id)s or True:True or system_scope:all\"",
        "quarantine:show: http://decider.example.com/%(project_id)s",
        json.dumps({"instances:list": "role:reader", "admin_required": "role:cloud_admin"}),
    ],
)
def test_a_policy_file_without_a_mistake_is_accepted(conf, store, written, text):  # noqa: F811
    written(text)
    make_application(conf, store)


def test_the_outlet_and_the_upgrade_check_name_a_mistake_of_the_policy(conf, written):  # noqa: F811
    file = written("quarantine:shwo: '!'\n")
    conf.set_override("enabled", True, group="outlet_watch")
    conf.set_override("auth_strategy", "noauth", group="outlet_watch")
    conf.set_override("enabled", False, group="outlet_webhook")
    mistake = f"[oslo_policy] policy_file: {file}: there is no rule 'quarantine:shwo'; did you mean 'quarantine:show'?"
    with pytest.raises(ConfigError, match=re.escape(mistake)):
        outlet_services.check(conf)
    found = upgrade.Checks(conf).policy()
    assert (found.code, found.details) == (Code.FAILURE, mistake)
    written("quarantine:show: '!'\n")
    outlet_services.check(conf)
    assert upgrade.Checks(conf).policy().code == Code.SUCCESS


def test_a_deprecated_name_of_a_rule_is_no_mistake(conf, written):  # noqa: F811
    old = policy.DeprecatedRule("things:get", "role:admin", deprecated_reason="renamed", deprecated_since="0.1")
    rules = [policy.RuleDefault("things:show", "role:admin", deprecated_rule=old)]
    written("things:get: '!'\n")
    policy_files.Policy(conf, rules)
    written("things:gte: '!'\n")
    with pytest.raises(ConfigError, match="did you mean 'things:get'"):
        policy_files.Policy(conf, rules)


def test_a_mistake_in_a_folder_of_policy_files_names_its_file(conf, store, written, tmp_path):  # noqa: F811
    folder = tmp_path / "policy.d"
    folder.mkdir()
    (folder / "10-ours.yaml").write_text("quarantine:shwo: role:admin\n")
    (folder / ".hidden").write_text("[")
    written("")
    conf.set_override("policy_dirs", [str(folder)], group="oslo_policy")
    with pytest.raises(ConfigError, match=rf"policy_dirs: {folder}/10-ours.yaml: there is no rule 'quarantine:shwo'"):
        make_application(conf, store)


class Served:
    """A policy whose files change. Each question comes a second after the last one."""

    def __init__(self, conf, rules):  # noqa: F811
        self._now = 0.0
        self._policy = policy_files.Policy(conf, rules, monotonic=lambda: self._now)

    def __call__(self, rule="quarantine:show", role="reader"):
        self._now += policy_files.LOOK_SECONDS
        return self._policy.allows(rule, {"project_id": "p"}, {"roles": [role], "project_id": "p"}, known=True)


BREAKS = {
    "a typing error": lambda file: file.write_text("quarantine:shwo: '!'\n"),
    "no YAML": lambda file: file.write_text("instances:list: ["),
    "a list": lambda file: file.write_text("- instances:list\n"),
    "a text": lambda file: file.write_text("instances:list"),
    "emptied": lambda file: file.write_text(""),
    "removed": lambda file: file.unlink(),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "no UTF-8": lambda file: file.write_bytes(b"\xff: '!'\n"),
    "a link to nothing": lambda file: (file.unlink(), file.symlink_to("nothing")),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_file_that_becomes_bad_opens_nothing_and_is_one_line_of_the_log(conf, operations, written, caplog, how):  # noqa: F811
    file = written("instances:list: '!'\n")
    asked = Served(conf, rules_of(operations))
    assert not asked("instances:list")
    BREAKS[how](file)
    with caplog.at_level(logging.INFO, "watcher_sync.api.http.policy_files"):
        assert not any(asked("instances:list") for _ in range(5))
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("watcher_sync")]
    assert str(file) in line
    assert "the rules of before stay in force" in line


def test_a_file_that_is_mended_or_replaced_by_an_older_one_is_in_force_at_once(conf, operations, written):  # noqa: F811
    file = written("instances:list: '!'\n")
    asked = Served(conf, rules_of(operations))
    file.write_text("instances:list: [\n")
    assert not asked("instances:list")
    older = file.with_name("older.yaml")
    older.write_text("instances:list: role:reader\n")
    os.utime(older, (1, 1))
    older.rename(file)
    assert asked("instances:list")


def test_the_default_of_what_is_public_is_the_only_declaration_of_it(operations):
    assert {rule.name for rule in rules_of(operations) if rule.check_str == EVERYBODY} == PUBLIC
