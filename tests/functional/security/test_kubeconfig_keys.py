# SPDX-License-Identifier: Apache-2.0
"""A private key of a kubeconfig is never in a file of ours, not even after a kill."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization

from tests.functional.sources.reflecting import make_source
from watcher_sync.exceptions import ConfigError, SourceError

_SCRIPT = """
import sys
from tests.functional.sources.reflecting import make_source
make_source(sys.argv[1]).probe()
print("connected", flush=True)
sys.stdin.read()
"""


class _ApiServer(http.server.BaseHTTPRequestHandler):
    """Answers as an empty cluster, and remembers who asked."""

    def do_GET(self) -> None:
        certificate: Any = self.connection.getpeercert()  # type: ignore[attr-defined]
        self.server.peers.append(certificate)  # type: ignore[attr-defined]
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def _cluster(authority: trustme.CA) -> Iterator[http.server.ThreadingHTTPServer]:
    """An API server that asks for a client certificate."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _ApiServer)
    server.peers = []  # type: ignore[attr-defined]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _kubeconfig(path: Path, port: int, authority: trustme.CA | None, user: dict[str, Any]) -> str:
    cluster: dict[str, Any] = {"server": f"https://127.0.0.1:{port}"}
    if authority is not None:
        cluster["certificate-authority-data"] = _b64(authority.cert_pem.bytes())
    document = {
        "clusters": [{"name": "edge", "cluster": cluster}],
        "users": [{"name": "ws", "user": user}],
        "contexts": [{"name": "edge", "context": {"cluster": "edge", "user": "ws"}}],
        "current-context": "edge",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def _inline_user(certificate: trustme.LeafCert) -> dict[str, str]:
    return {
        "client-certificate-data": _b64(b"".join(c.bytes() for c in certificate.cert_chain_pems)),
        "client-key-data": _b64(certificate.private_key_pem.bytes()),
    }


def test_a_killed_process_leaves_no_private_key_in_any_folder(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("watcher-sync")
    places = {name: tmp_path / name for name in ("tmp", "run", "home")}
    for place in places.values():
        place.mkdir()
    environ = {
        **os.environ,
        "TMPDIR": str(places["tmp"]),
        "XDG_RUNTIME_DIR": str(places["run"]),
        "HOME": str(places["home"]),
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]),
    }
    with _cluster(authority) as server:
        config = _kubeconfig(tmp_path / "kubeconfig", server.server_port, authority, _inline_user(certificate))
        child = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, config],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "connected\n"
            while_running = _files_with_keys(tmp_path)
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()
        assert server.peers, "the client certificate was presented"
    assert while_running == []
    assert _files_with_keys(tmp_path) == []


def _files_with_keys(folder: Path) -> list[str]:
    return [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and b"PRIVATE KEY" in p.read_bytes()]


def test_certificate_and_key_files_of_a_kubeconfig_are_relative_to_its_folder(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("watcher-sync")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    with _cluster(authority) as server:
        user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
        make_source(_kubeconfig(tmp_path / "kubeconfig", server.server_port, authority, user)).probe()
        assert server.peers


def test_a_server_of_another_authority_is_refused(tmp_path):
    authority = trustme.CA()
    with _cluster(authority) as server:
        user = _inline_user(authority.issue_cert("watcher-sync"))
        for trusted in (trustme.CA(), None):
            source = make_source(_kubeconfig(tmp_path / "kubeconfig", server.server_port, trusted, user))
            with pytest.raises(SourceError, match="certificate verify failed"):
                source.probe()
        assert not server.peers


def test_an_encrypted_or_malformed_key_is_refused_and_named(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("watcher-sync")
    good = _inline_user(certificate)
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"a password"),
    )
    for user, message in (
        ({**good, "client-key-data": _b64(encrypted)}, "the user 'ws': the client certificate or key is not usable"),
        ({**good, "client-key-data": _b64(b"no key")}, "the user 'ws': the client certificate or key is not usable"),
        ({**good, "client-key-data": "***"}, "the user 'ws': client-key-data is no base64"),
        ({"client-certificate-data": good["client-certificate-data"]}, "needs both client-certificate and client-key"),
    ):
        with pytest.raises((ConfigError, SourceError), match=message):
            make_source(_kubeconfig(tmp_path / "kubeconfig", 1, authority, user)).probe()


def test_a_certificate_of_an_exec_plugin_is_presented(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("watcher-sync")
    status = {
        "clientCertificateData": certificate.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": certificate.private_key_pem.bytes().decode(),
    }
    version = "client.authentication.k8s.io/v1"
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    (tmp_path / "answer").write_text(answer)
    user = {"exec": {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "answer")]}}
    with _cluster(authority) as server:
        make_source(_kubeconfig(tmp_path / "kubeconfig", server.server_port, authority, user)).probe()
        assert server.peers
