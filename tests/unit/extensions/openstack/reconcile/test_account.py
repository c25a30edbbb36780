# SPDX-License-Identifier: Apache-2.0
"""The account in ``[reconcile_nova]``: options of keystoneauth, or a cloud of clouds.yaml."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import trustme
from openstack.config import loader

from tests.waiting import deadline
from watcher_sync.assembly import process
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.cloud.errors import CloudError

PASSWORD = """
[reconcile_nova]
enabled = true
auth_type = password
auth_url = http://127.0.0.1:9/v3
username = auditor
password = secret
project_name = admin
user_domain_name = Default
project_domain_name = Default
"""


@pytest.fixture
def read(tmp_path):
    def configured(text):
        file = tmp_path / "watcher-sync.conf"
        file.write_text(text)
        conf = process._unread(())
        process._read(conf, [f"--config-file={file}"], "watcher-sync-engine")
        return conf

    return configured


@pytest.fixture
def pem(tmp_path):
    """A file with a certificate and its key."""
    path = tmp_path / "pair.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return path


def test_an_option_of_a_cloud_that_its_type_does_not_know_is_named(read, tmp_path, monkeypatch):
    file = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    file.write_text("clouds: {edge: {auth: {auth_url: 'http://127.0.0.1:9/v3', usernme: auditor}}}\n")
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] cloud: edge has an option .* 'usernme'$"):
        OpenStackCloud(read("[reconcile_nova]\ncloud = edge\n"))


def test_the_options_of_the_plugin_are_known(read):
    conf = read(PASSWORD)
    assert (conf.reconcile_nova.username, conf.reconcile_nova.timeout) == ("auditor", 60)
    assert OpenStackCloud(conf).adapter("compute").service_type == "compute"


def test_an_option_of_another_plugin_is_refused(read):
    with pytest.raises(ConfigError, match=r"unknown option application_credential_id in \[reconcile_nova\]"):
        read(PASSWORD + "application_credential_id = abc\n")


def test_a_plugin_that_does_not_exist_is_named(read):
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] auth_type = pasword: there is no such plugin"):
        read("[reconcile_nova]\nauth_type = pasword\n")


def test_the_options_of_the_plugin_may_be_in_another_section(read):
    text = PASSWORD.replace("[reconcile_nova]\nenabled = true", "[reconcile_nova]\nauth_section = account\n[account]")
    conf = read(text)
    assert conf.account.username == "auditor"
    assert OpenStackCloud(conf).adapter("placement").service_type == "placement"


def test_a_section_that_does_not_exist_is_named(read):
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] auth_section = account: there is no such section$"):
        read("[reconcile_nova]\nauth_section = account\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [("[reconcile_nova]\nenabled = true\n", "are not set"), (PASSWORD + "cloud = edge\n", "are both set")],
)
def test_exactly_one_account_is_required(read, text, why):
    with pytest.raises(ConfigError, match=rf"^\[reconcile_nova\] cloud, auth_type: {why}"):
        OpenStackCloud(read(text))


def test_a_missing_option_of_the_account_is_named(read):
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] auth_url: not set"):
        OpenStackCloud(read(PASSWORD.replace("auth_url", "#auth_url")))


def test_the_address_of_the_tokens_is_not_that_of_keystone(read):
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] auth_url: it ends with /auth/tokens; "):
        OpenStackCloud(read(PASSWORD.replace("9/v3", "9/v3/auth/tokens/")))


@pytest.mark.parametrize("option", ["cafile", "certfile", "keyfile"])
def test_a_file_of_the_account_that_cannot_be_read_is_named(read, pem, option):
    files = {"certfile": pem, "keyfile": pem, option: "/no/such.pem"}
    with pytest.raises(ConfigError, match=rf"^\[reconcile_nova\] {option}: /no/such.pem: No such file or directory$"):
        OpenStackCloud(read(PASSWORD + "".join(f"{name} = {path}\n" for name, path in files.items())))


@pytest.mark.parametrize(("option", "named"), [("cacert", "cafile"), ("cert", "certfile"), ("key", "keyfile")])
def test_a_file_of_clouds_yaml_that_cannot_be_read_is_named(read, pem, tmp_path, monkeypatch, option, named):
    file = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    auth = "{auth_url: 'http://127.0.0.1:9/v3', username: auditor, password: secret}"
    files = {"cert": pem, "key": pem, option: "/no/such.pem"}
    file.write_text(f"clouds: {{edge: {{auth: {auth}, {', '.join(f'{k}: {v}' for k, v in files.items())}}}}}\n")
    with pytest.raises(ConfigError, match=rf"^\[reconcile_nova\] {named}: /no/such.pem: No such file or directory$"):
        OpenStackCloud(read("[reconcile_nova]\ncloud = edge\n"))


def test_a_file_that_is_removed_later_fails_the_request(read, pem):
    cloud = OpenStackCloud(read(PASSWORD.replace("http://", "https://") + f"cafile = {pem}\n"))
    pem.unlink()
    with pytest.raises(CloudError, match=r"^compute: Could not find a suitable TLS CA certificate bundle"):
        cloud.client(time.monotonic() + deadline(30)).get("compute", "/servers")


@pytest.mark.parametrize("value", ["#password", "password =\n#"])
def test_an_account_without_password_is_refused_before_the_first_request(read, value):
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\] password: not set; auth_type = password needs it$"):
        OpenStackCloud(read(PASSWORD.replace("password = s", f"{value} = s")))


def test_the_section_of_the_plugin_is_named_for_an_option_that_it_lacks(read):
    text = "[reconcile_nova]\nauth_section = account\n[account]\nauth_type = none\n"
    with pytest.raises(ConfigError, match=r"^\[account\] endpoint: not set; auth_type = none needs it$"):
        OpenStackCloud(read(text))


@pytest.mark.parametrize("option", ["endpoint", "auth_url"])
def test_an_option_of_a_plugin_without_auth_type_says_so(read, option):
    with pytest.raises(
        ConfigError, match=rf"unknown option {option} in \[reconcile_nova\], where auth_type is not set"
    ):
        read(f"[reconcile_nova]\n{option} = http://127.0.0.1:9\n")


def test_a_plugin_that_does_not_exist_logs_nothing(read, caplog):
    with pytest.raises(ConfigError):
        read("[reconcile_nova]\nauth_type = pasword\n")
    assert not caplog.records


def test_a_cloud_of_clouds_yaml_is_an_account(read, tmp_path, monkeypatch):
    file = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    file.write_text(
        "clouds:\n  edge:\n    region_name: north\n    auth:\n      auth_url: http://127.0.0.1:9/v3\n"
        "      username: auditor\n      password: secret\n      project_name: admin\n"
    )
    cloud = OpenStackCloud(read("[reconcile_nova]\ncloud = edge\n"))
    assert cloud.adapter("compute").region_name == "north"


def test_a_cloud_without_password_is_refused_before_the_first_request(read, tmp_path, monkeypatch):
    file = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    file.write_text("clouds: {edge: {auth: {auth_url: 'http://127.0.0.1:9/v3', username: auditor}}}\n")
    with pytest.raises(
        ConfigError, match=r"^\[reconcile_nova\] cloud edge: password: not set; auth_type = password needs it$"
    ):
        OpenStackCloud(read("[reconcile_nova]\ncloud = edge\n"))


def test_a_cloud_that_clouds_yaml_lacks_is_named(read, monkeypatch):
    monkeypatch.setattr(loader, "CONFIG_FILES", [])
    with pytest.raises(ConfigError, match=r"^\[reconcile_nova\].*edge"):
        OpenStackCloud(read("[reconcile_nova]\ncloud = edge\n"))


def test_the_reason_of_a_failure_of_tls_has_no_text_of_the_library(read, caplog):
    with socket.create_server(("127.0.0.1", 0)) as server:  # it speaks no TLS
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        cloud = OpenStackCloud(read(PASSWORD.replace("http://127.0.0.1:9", address)))
        with pytest.raises(CloudError, match=r"^keystone: TLS: [A-Z_]+$"):
            cloud.client(time.monotonic() + deadline(30)).get("compute", "/servers")
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("watcher_sync")]
    assert len(logged) == 1
    assert address in logged[0]


def _answer(server: socket.socket) -> None:
    while True:
        try:
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        except OSError:
            return


@pytest.mark.parametrize(
    ("url", "named"), [("http://c/identity/v3/auth/tokens", "keystone"), ("http://c/placement/x", "placement")]
)
def test_services_at_paths_of_one_host_are_distinguished(read, url, named):
    cloud = OpenStackCloud(read(PASSWORD.replace("http://127.0.0.1:9/v3", "http://c/identity/v3")))
    assert cloud.asked("placement", ConnectionError(f"Unable to establish connection to {url}: refused")) == named
