# SPDX-License-Identifier: Apache-2.0
"""No part of a password in a URL becomes a host, a port or a path, which errors and the status show."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

import oslo_messaging
import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st
from oslo_config import cfg

from watcher_sync.conf import urls
from watcher_sync.exceptions import ConfigError

PASSWORDS = st.text("a1/@:?#=&%. ", min_size=1, max_size=12)
"""Without a comma, which in a URL of RabbitMQ may be that between two hosts."""


def _of_rabbit(url: str) -> set[str]:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    return {host.hostname for host in oslo_messaging.TransportURL.parse(conf, url).hosts}


READERS: dict[str, Callable[[str], set[Any]]] = {
    "nats": lambda url: {urllib.parse.urlsplit(url).hostname},
    "postgresql": lambda url: {sa.make_url(url).host},
    "rabbit": _of_rabbit,
}


@pytest.mark.parametrize("scheme", READERS)
@given(password=PASSWORDS)
@example(password="1234/x")
@example(password="12?x")
@example(password="a@b/c")
def test_a_url_that_passes_is_read_with_the_host_that_is_meant(scheme: str, password: str) -> None:
    url = f"{scheme}://someone:{password}@host:1/place"
    try:
        urls.check_login("here", "url", url)
        found = READERS[scheme](url)
    except (ConfigError, ValueError, sa.exc.ArgumentError, oslo_messaging.InvalidTransportURL):
        return
    assert found == {"host"}


@pytest.mark.parametrize(
    "url",
    [
        "rabbit://u:p%40%2F@one:5672,u:p@two:5672/%2F?ssl_ca_file=/etc/a%40b.pem",
        "nats://u@host:4222",
        "nats://host",
        "postgresql+psycopg:///name?host=/run/postgresql",
        "postgresql://u:p@/name?host=/run/postgresql&application_name=a%40b",
        "sqlite:////var/lib/a@b/ws.sqlite",
        "sqlite://",
        "nothing",
        "",
    ],
)
def test_usual_urls_pass(url: str) -> None:
    urls.check_login("here", "url", url)


def test_the_error_names_the_option_and_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"\[database\] connection: the URL has an @ that is not before a host.*%40"):
        urls.check_login("database", "connection", "mysql://root:p@ss@127.0.0.1/ws")
