# SPDX-License-Identifier: Apache-2.0
"""Every executable reads the options of Keystone's auth plugins, and the API says what is missing."""

from __future__ import annotations

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.services.servers import free_port  # noqa: E402
from tests.unit.api.conftest import Client  # noqa: E402
from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.assembly.api import assemble, make_application  # noqa: E402
from watcher_sync.conf import keystone  # noqa: E402
from watcher_sync.exceptions import ConfigError  # noqa: E402
from watcher_sync.storage.database import database  # noqa: E402
from watcher_sync.storage.writing.store import Store  # noqa: E402
from watcher_sync.testing.kinds import builtin_kinds  # noqa: E402

SECTION = """[keystone_authtoken]
www_authenticate_uri = https://keystone.example.com/v3
auth_url = https://keystone.example.com/v3
username = watcher-sync
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        file = tmp_path / "ws.conf"
        file.write_text(f"[database]\nconnection = sqlite:///{tmp_path / 'ws.sqlite'}\n{text}")
        return process.make_conf(["--config-file", str(file)], prog="test")

    return read


@pytest.mark.parametrize(
    "text",
    [
        SECTION,
        SECTION + "auth_type = password\n",
        "[keystone_authtoken]\nauth_section = service\n" + SECTION.replace("keystone_authtoken", "service"),
        "[keystone_authtoken]\nauth_type = v3applicationcredential\nauth_url = http://k/v3\n"
        "application_credential_id = a\napplication_credential_secret = b\n",
        SECTION.replace("username", "user_name"),
    ],
)
def test_the_options_of_the_plugin_are_known_and_complete(read, text):
    keystone.require_complete(read(text.replace("www_authenticate_uri = https://keystone.example.com/v3\n", "")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SECTION.replace("username", "usrname"), r"unknown option usrname in \[keystone_authtoken\].*did you mean"),
        ("[keystone_authtoken]\nauth_type = pasword\n", r"\[keystone_authtoken\] auth_type = pasword: there is no"),
        ("[keystone_authtoken]\nauth_section = nowhere\n", "auth_section = nowhere: there is no such section"),
        ("[keystone_authtoken]\nauth_section = s\n[s]\nauth_ulr = x\n", r"unknown option auth_ulr in \[s\]"),
        (SECTION + "http_connect_timeout = soon\n", "soon"),
    ],
)
def test_a_mistake_in_the_section_is_named(read, text, words):
    with pytest.raises(ConfigError, match=words):
        read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "auth_url, username, password, project_name: not set"),
        ("[keystone_authtoken]\n", "auth_url, username, password, project_name: not set"),
        (SECTION.replace("password = secret\n", ""), r"\[keystone_authtoken\] password: not set"),
        (SECTION.replace("user_domain_name = Default\n", ""), "user_domain_name: not set"),
        ("[keystone_authtoken]\nauth_type = v3token\n", "auth_url: not set"),
        (SECTION + "memcache_security_strategy = MAC\n", "memcache_secret_key"),
        (SECTION + "memcached_servers = h:1\nmemcache_sasl_enabled = true\n", "python-binary-memcached"),
    ],
)
def test_the_api_does_not_start_without_what_keystone_needs(read, text, words):
    with pytest.raises(ConfigError, match=words):
        assemble(read(text))


def test_without_keystone_it_is_503_and_not_401(read, problem):
    url = f"http://127.0.0.1:{free_port()}/v3"
    text = SECTION.replace("https://keystone.example.com/v3", url) + "http_request_max_retries = 0\n"
    conf = read(text)
    store = Store(database.open_database(conf), builtin_kinds())
    try:
        client = Client(make_application(conf, store))
        answer = client.simulate_get("/v1/compute_nodes", headers={"X-Auth-Token": "t"})
        problem(answer, 503)
        assert int(answer.headers["Retry-After"]) > 0
        problem(client.simulate_get("/v1/compute_nodes"), 401)
    finally:
        store.close()
        store.database.dispose()
