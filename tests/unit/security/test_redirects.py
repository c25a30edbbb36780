# SPDX-License-Identifier: Apache-2.0
"""No request with a credential follows a redirect to another host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1 import adapter, session, token_endpoint
from oslo_config import cfg

from tests.unit.client.conftest import served
from tests.waiting import deadline
from watcher_sync.assembly import process
from watcher_sync.client import Client, ClientError, NotConfigured
from watcher_sync.client.watch import HarvestRefused, RestHarvester
from watcher_sync.extensions.federation.source.options import OPTIONS, read_settings
from watcher_sync.extensions.federation.source.region import Region
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.extensions.openstack.cloud.transport import require_same_host

STATUSES = ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]


class Hosts:
    """One server that redirects each path that it does not answer, and another one that the redirects name."""

    def __init__(self, stack: ExitStack) -> None:
        self.status = STATUSES[0]
        self.answers: dict[str, Callable[[], tuple[str, list[tuple[str, str]], Any]]] = {}
        self.asked: list[dict[str, Any]] = []
        """What reached the other server."""
        self.other = stack.enter_context(served(self._other))
        self.url = stack.enter_context(served(self._redirecting))

    def _other(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.asked.append(environ)
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    def _redirecting(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        found = self.answers.get(environ["PATH_INFO"])
        location = ("Location", f"{self.other}{environ['PATH_INFO']}")
        status, headers, document = found() if found else (self.status, [location], {})
        start_response(status, [("Content-Type", "application/json"), *headers])
        return [json.dumps(document).encode()]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(stack)


@pytest.mark.parametrize("status", STATUSES)
def test_the_client_names_the_endpoint_that_redirects(hosts: Hosts, status: str) -> None:
    hosts.status = status
    plugin = token_endpoint.Token(hosts.url, "secret")
    client = Client(adapter.Adapter(session.Session(auth=plugin), endpoint_override=hosts.url))
    with pytest.raises(NotConfigured, match="endpoint") as refused:
        client.sources()
    assert hosts.url in str(refused.value)
    assert hosts.other in str(refused.value)
    assert not hosts.asked


@pytest.mark.parametrize("redirects", ["endpoint", "auth_url"])
def test_a_region_and_its_keystone_cannot_send_a_source_elsewhere(hosts: Hosts, redirects: str) -> None:
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS, group="source_north")
    conf([], default_config_files=[], default_config_dirs=[])
    given = {"endpoint": hosts.url, "auth_url": f"{hosts.url}/v3", "username": "follower", "password": "secret"}
    for name, value in given.items():
        conf.set_override(name, value, group="source_north")
    if redirects == "endpoint":
        hosts.answers["/v3/auth/tokens"] = token_of(hosts)
    region = Region(read_settings("north", conf.source_north), conf.source_north)
    for call in (region.kinds, lambda: region.changes(0), lambda: list(region.pages("/v1/instances"))):
        with pytest.raises(ClientError, match=redirects.partition("_")[0]) as refused:
            call()
        assert hosts.other in str(refused.value)
    assert not hosts.asked


def test_nova_cannot_send_the_token_elsewhere(hosts: Hosts, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hosts.answers["/v3/auth/tokens"] = token_of(hosts)
    cloud = cloud_at(hosts, tmp_path)
    with pytest.raises(CloudError):
        cloud.client(soon()).get("compute", "/servers/detail")
    assert f"{hosts.url} redirects to {hosts.other}" in caplog.text
    assert not hosts.asked


def test_keystone_cannot_send_the_password_elsewhere(
    hosts: Hosts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CloudError):
        cloud_at(hosts, tmp_path).client(soon()).get("compute", "/servers/detail")
    assert f"{hosts.url} redirects to {hosts.other}" in caplog.text
    assert not hosts.asked


def test_nova_may_redirect_to_another_path(hosts: Hosts, tmp_path: Path) -> None:
    """Nova does so from /v2.1 to /v2.1/."""
    hosts.answers["/v3/auth/tokens"] = token_of(hosts)
    hosts.answers["/servers/detail"] = lambda: ("302 Found", [("Location", f"{hosts.url}/servers/detail/")], {})
    hosts.answers["/servers/detail/"] = lambda: ("200 OK", [], {"servers": []})
    assert json.loads(cloud_at(hosts, tmp_path).client(soon()).get("compute", "/servers/detail")) == {"servers": []}


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://nova:443/v2.1", "https://nova/v2.1/"),
        ("http://nova/v2.1", "http://nova:80/v2.1/"),
        ("https://Nova/", "HTTPS://nova/"),
        ("https://[2001:DB8::1]:8774/", "https://[2001:db8::1]:8774/v2.1"),
        ("https://nova/v2.1", "/v2.1/"),
    ],
)
def test_a_host_that_is_written_differently_is_the_same_host(url: str, location: str) -> None:
    require_same_host(url, location)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://nova/", "https://nova:8774/"),
        ("https://nova/", "http://nova:443/"),
        ("https://nova/", "http://nova/"),
        ("https://nova/", "https://nova.example/"),
        ("https://nova/", "https://nova@example/"),
        ("https://nova/", "//example/"),
        ("https://nova/", "https://nova:port/"),
        ("https://nova/", "https://nova:99999/"),
        ("https://nova/", "https://[nova/"),
    ],
)
def test_another_port_scheme_or_name_is_another_host(url: str, location: str) -> None:
    with pytest.raises(requests.ConnectionError, match="another host is not followed"):
        require_same_host(url, location)


def test_a_catch_up_cannot_send_the_token_elsewhere(hosts: Hosts) -> None:
    with pytest.raises(HarvestRefused):
        list(RestHarvester(hosts.url, "tenant").harvest("/management/v1alpha1/watchtopics/a", 0, "secret"))
    assert not hosts.asked


def soon() -> float:
    return time.monotonic() + deadline(60)


def cloud_at(hosts: Hosts, folder: Path) -> OpenStackCloud:
    file = folder / "watcher-sync.conf"
    file.write_text(
        "[reconcile_nova]\nenabled = true\nauth_type = v3password\nusername = auditor\npassword = secret\n"
        f"user_domain_name = Default\nsystem_scope = all\nauth_url = {hosts.url}/v3\n"
    )
    conf = process._unread(())
    process._read(conf, [f"--config-file={file}"], "watcher-sync-engine")
    return OpenStackCloud(conf)


def token_of(hosts: Hosts) -> Callable[[], tuple[str, list[tuple[str, str]], Any]]:
    """Keystone's answer with a token and a catalogue."""
    endpoint = {"interface": "public", "region": "one", "region_id": "one", "id": "e", "url": hosts.url}
    interfaces = [endpoint, {**endpoint, "interface": "internal"}]
    catalogue = [{"type": "compute", "name": "nova", "id": "s", "endpoints": interfaces}]
    token = {
        "methods": ["password"],
        "user": {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}},
        "expires_at": "2999-01-01T00:00:00.000000Z",
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "system": {"all": True},
        "catalog": catalogue,
    }
    return lambda: ("201 Created", [("X-Subject-Token", "secret")], {"token": token})
