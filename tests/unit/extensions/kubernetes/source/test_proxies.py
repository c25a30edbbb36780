# SPDX-License-Identifier: Apache-2.0
"""Which proxy leads to a cluster, and how we log in there: by kubectl's rules."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.unit.client.watch.connect_proxy import ConnectProxy
from tests.unit.extensions.kubernetes.source.clusters import Cluster, connect, write
from watcher_sync.extensions.kubernetes.source.connection import TransportError
from watcher_sync.extensions.kubernetes.source.proxy import find_proxy

_LOGIN = "me:p%40ss%3Aw%C5%82"
_USER, _PASSWORD = "me", "p@ss:w\u0142"


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def _secure(folder: Path, host: str) -> tuple[Cluster, dict[str, Any]]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca")
    return Cluster(authority, host=host), {"certificate-authority": "ca"}


@pytest.mark.parametrize("secure", [False, True])
def test_a_login_in_a_proxy_url_is_decoded_and_sent_to_the_proxy_alone(tmp_path, caplog, secure):
    caplog.set_level(logging.DEBUG)
    cluster, options = _secure(tmp_path, "api.edge") if secure else (Cluster(host="api.edge"), {})
    with cluster, ConnectProxy(_USER, _PASSWORD) as proxy:
        proxy.names["api.edge"] = "127.0.0.1"
        options["proxy-url"] = f"http://{_LOGIN}@127.0.0.1:{proxy.port}"
        connect(write(tmp_path / "kubeconfig", cluster.url, {"token": "s3cret"}, **options)).read("/version")
        assert proxy.passed
        assert cluster.requests[0]["Authorization"] == "Bearer s3cret"
        told = caplog.text
        assert ("/version" in told, "s3cret" in told, _PASSWORD in told, "p%40ss" in told) == (True,) + 3 * (False,)
        if secure:
            assert cluster.requests[0]["Proxy-Authorization"] is None


def test_a_proxy_url_counts_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Cluster(host="127.0.0.1") as cluster, ConnectProxy(_USER, _PASSWORD) as proxy:
        url = f"http://{_LOGIN}@127.0.0.1:{proxy.port}"
        connect(write(tmp_path / "kubeconfig", cluster.url, **{"proxy-url": url})).read("/version")
        assert proxy.passed


def test_a_proxy_that_is_away_or_refuses_is_reported_without_the_password(tmp_path, caplog):
    with ConnectProxy("other", "other") as proxy:
        for port, message in ((proxy.port, "407"), (1, "Connection refused")):
            url = f"http://me:s3cret@127.0.0.1:{port}"
            config = write(tmp_path / "kubeconfig", "https://api.edge", **{"proxy-url": url})
            with pytest.raises(TransportError, match=message) as caught:
                connect(config).read("/version")
            assert "s3cret" not in str(caught.value) + caplog.text


class _Socks(socketserver.BaseRequestHandler):
    """SOCKS 5 with a login (RFC 1928 and 1929); each name is this machine."""

    server: Any

    def handle(self) -> None:
        connection = self.request
        connection.recv(2 + connection.recv(2, socket.MSG_PEEK)[1])
        connection.sendall(b"\x05\x02")
        (size,) = connection.recv(2)[1:]
        user = connection.recv(size)
        (size,) = connection.recv(1)
        self.server.logins.append((user.decode(), connection.recv(size).decode()))
        connection.sendall(b"\x01\x00")
        kind = connection.recv(4)[3]
        size = connection.recv(1)[0] if kind == 3 else 4
        self.server.names.append(connection.recv(size))
        (port,) = struct.unpack("!H", connection.recv(2))
        with socket.create_connection(("127.0.0.1", port)) as far:
            connection.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
            ends = {connection: far, far: connection}
            with contextlib.suppress(OSError):
                while True:
                    for end in select.select(list(ends), [], [])[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)


@pytest.fixture
def socks() -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Socks) as server:
        server.daemon_threads = True
        server.names, server.logins = [], []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_socks_proxy_gets_the_login_and_the_name_of_the_server(tmp_path, socks):
    pytest.importorskip("socks")
    cluster, options = _secure(tmp_path, "api.edge")
    with cluster:
        options["proxy-url"] = f"socks5://{_LOGIN}@127.0.0.1:{socks.server_address[1]}"
        connect(write(tmp_path / "kubeconfig", cluster.url, **options)).read("/version")
    assert socks.names == [b"api.edge"]
    assert socks.logins == [(_USER, _PASSWORD)]


def test_a_socks_proxy_without_its_package_is_refused_and_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "socks", None)
    monkeypatch.delitem(sys.modules, "urllib3.contrib.socks", raising=False)
    config = write(tmp_path / "kubeconfig", "https://api.edge", **{"proxy-url": "socks5://127.0.0.1:1"})
    with pytest.raises(TransportError, match=r"kubeconfig: the cluster 'c': proxy-url .*needs the package PySocks"):
        connect(config).read("/version")


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        ("https://api.edge", {}, None),
        ("https://api.edge", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.edge", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.edge", {"HTTPS_PROXY": "http://upper", "https_proxy": "http://lower"}, "http://upper"),
        ("https://api.edge", {"HTTP_PROXY": "http://p", "ALL_PROXY": "http://q"}, None),
        ("http://api.edge", {"HTTP_PROXY": "http://p"}, "http://p"),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://127.8.0.1:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, None),
    ],
)
def test_without_a_proxy_url_the_environment_counts_as_for_go(server, environ, expected):
    found = find_proxy(server, None, environ)
    assert (None if found is None else found.url) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "excluded"),
    [
        ("https://api.edge", "*", True),
        ("https://api.edge", "edge", True),
        ("https://api.edge", "API.edge", True),
        ("https://api.edge", ".edge", True),
        ("https://api.edge", "*.edge", True),
        ("https://api.edge", ".api.edge", False),
        ("https://api.edge", "dge", False),
        ("https://api.edge", "x, ,api.edge:443", True),
        ("https://api.edge", "api.edge:6443", False),
        ("https://api.edge:6443", "api.edge:6443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8,1.2.3.4", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "fd00::2,10.0.0.0/40,:6443", False),
    ],
)
def test_no_proxy_excludes_domains_addresses_and_networks(server, no_proxy, excluded):
    found = find_proxy(server, None, {"HTTPS_PROXY": "http://p", "no_proxy": no_proxy})
    assert (found is None) is excluded


def test_a_proxy_of_the_environment_that_cannot_be_used_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "ftp://me:s3cret@p")
    with pytest.raises(TransportError, match=r"the proxy of the environment \(HTTPS_PROXY\) must be a URL") as caught:
        connect(write(tmp_path / "kubeconfig", "https://api.edge")).read("/version")
    assert "s3cret" not in str(caught.value)
