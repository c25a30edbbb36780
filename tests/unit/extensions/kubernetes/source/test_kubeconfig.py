# SPDX-License-Identifier: Apache-2.0
"""Which cluster and which user a kubeconfig names: what kubectl accepts works, and the rest is refused by name."""

from __future__ import annotations

import base64
import json
import os
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trustme
import yaml
from oslo_config import cfg

from tests.unit.extensions.kubernetes.source.clusters import Cluster, connect, write
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.source import kubeconfig
from watcher_sync.extensions.kubernetes.source.connection import TransportError
from watcher_sync.extensions.kubernetes.source.credentials import Access, ApiClient, CredentialsError, load_client
from watcher_sync.extensions.kubernetes.source.kubeconfig import KubeconfigError, find_paths, read_kubeconfig
from watcher_sync.extensions.kubernetes.source.options import OPTIONS
from watcher_sync.extensions.kubernetes.source.target import read_target

_V1: Final = "client.authentication.k8s.io/v1"
_HTTPS: Final = "https://127.0.0.1:1"


def _load(path: Path) -> ApiClient:
    return load_client(Access(kubeconfig=str(path)))


def _header(path: Path) -> str | None:
    return _load(path).headers.get("Authorization")


def _context(client: ApiClient) -> ssl.SSLContext:
    found: ssl.SSLContext = client.pool.connection_pool_kw["ssl_context"]
    return found


def test_the_first_file_that_has_a_name_wins(tmp_path):
    first = write(tmp_path / "first", "http://first")
    second = write(tmp_path / "second", "http://second")
    (tmp_path / "empty").touch()
    files = os.pathsep.join([str(tmp_path / "missing"), str(tmp_path / "empty"), str(first), str(second)])
    assert read_kubeconfig(files, None).cluster.values.server == "http://first"


def test_without_an_option_the_environment_and_then_the_home_directory_count(tmp_path):
    assert find_paths(None, {"KUBECONFIG": f"/a{os.pathsep}/b"}) == [Path("/a"), Path("/b")]
    assert find_paths(None, {}) == [Path.home() / ".kube" / "config"]


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc", "tokenFile": "token"}, "Bearer of a file"),
        ({"token": "abc", "tokenFile": "missing"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer of a file"),
        ({"username": "a", "password": "\u0142"}, "Basic YTrFgg=="),
        ({"username": "a"}, "Basic YTo="),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "xyz", "refresh-token": "r"}}}, "Bearer xyz"),
        ({"token": "abc", "exec": {"apiVersion": _V1, "command": "/missing"}}, "Bearer abc"),
    ],
)
def test_each_kind_of_password_becomes_a_header(tmp_path, user, header):
    (tmp_path / "token").write_text("of a file\n")
    assert _header(write(tmp_path / "kubeconfig", _HTTPS, user)) == header


def test_who_is_impersonated_is_said_in_each_request(tmp_path):
    user = {
        "token": "t",
        "as": "jane \u0142",
        "as-uid": "7",
        "as-groups": ["a", "b, c"],
        "as-user-extra": {"Sc/o%p": ["x", "y"], "empty": []},
    }
    with Cluster() as cluster:
        connection = connect(write(tmp_path / "kubeconfig", cluster.url, user))
        connection.read("/version")
        connection.read("/api", {"limit": "1"})
        for request in cluster.requests:
            told = [(key, value) for key, value in request.items() if key.startswith("Impersonate")]
            assert sorted(told) == [
                ("Impersonate-Extra-sc%2fo%25p", "x"),
                ("Impersonate-Extra-sc%2fo%25p", "y"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b, c"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-User", "jane \u0142".encode().decode("latin-1")),
            ]


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ({"token": "s3cret\nb"}, "token"),
        ({"token": "t", "as": "s3cret\r\nImpersonate-Group: system:masters"}, "as"),
        ({"token": "t", "as": "a", "as-groups": ["s3cret\x00"]}, "as-groups"),
        ({"token": "t", "as": "a", "as-user-extra": {"k": ["s3cret\n"]}}, "as-user-extra"),
    ],
)
def test_a_value_that_cannot_be_in_a_header_is_named_and_not_repeated(tmp_path, user, key):
    with pytest.raises(TransportError, match=f"the user 'u': {key} has a line break") as caught:
        connect(write(tmp_path / "kubeconfig", _HTTPS, user)).read("/version")
    assert "s3cret" not in str(caught.value)


_PEM: Final = trustme.CA()
_LEAF: Final = _PEM.issue_cert("me")
_CA: Final = base64.b64encode(_PEM.cert_pem.bytes()).decode()
_CERTIFICATE: Final = base64.b64encode(_LEAF.cert_chain_pems[0].bytes()).decode()
_KEY: Final = base64.b64encode(_LEAF.private_key_pem.bytes()).decode()
_PLUGIN: Final = {"apiVersion": _V1, "command": "cat", "args": ["answer"]}


def _trusts(client: ApiClient) -> bool:
    return len(_context(client).get_ca_certs()) == 1


def _is(name: str, value: Any) -> Any:
    return lambda client: client.headers.get(name) == value


def _works(client: ApiClient) -> bool:
    return client.base_url == _HTTPS


FIELDS: Final = {
    "config": "kind apiVersion preferences clusters users contexts current-context extensions",
    "cluster": "server tls-server-name insecure-skip-tls-verify certificate-authority certificate-authority-data"
    " proxy-url disable-compression extensions",
    "user": "client-certificate client-certificate-data client-key client-key-data token tokenFile as as-uid as-groups"
    " as-user-extra username password auth-provider exec extensions",
    "context": "cluster user namespace extensions",
    "exec": "command args env apiVersion installHint provideClusterInfo interactiveMode",
    "auth-provider": "name config",
}
"""All fields of the API ``Config``, version v1."""

_TYPES: Final = {
    "cluster": kubeconfig.KubeconfigCluster,
    "user": kubeconfig.KubeconfigUser,
    "context": kubeconfig.KubeconfigContext,
    "exec": kubeconfig.Exec,
    "auth-provider": kubeconfig.AuthProvider,
}

_BOTH: Final = {"client-certificate-data": _CERTIFICATE, "client-key-data": _KEY}

CASES: Final[list[tuple[str, dict[str, Any], Any]]] = [
    ("config.kind", {"kind": "Pod"}, "kind must be Config"),
    ("config.apiVersion", {"apiVersion": "v2"}, "apiVersion must be v1"),
    ("config.preferences", {"preferences": {"colors": True}}, _works),
    ("config.clusters", {"clusters": None}, "clusters has no entry 'c'"),
    ("config.users", {"users": {}}, "users must be a list"),
    ("config.contexts", {"contexts": 3}, "contexts must be a list"),
    ("config.current-context", {"current-context": 2024}, "current-context must be a string"),
    ("config.current-context", {"current-context": "other"}, "contexts has no entry 'other'"),
    ("config.extensions", {"extensions": [{"name": "e", "extension": 1}], "unknown": 1}, _works),
    ("cluster.server", {"server": f"{_HTTPS}/a/b/?q#f"}, lambda client: client.base_url == f"{_HTTPS}/a/b"),
    ("cluster.server", {"server": f"{_HTTPS}/"}, _works),
    ("cluster.server", {"server": "https://[fe80::1%25eth0]:6443"}, lambda client: "%25eth0" in client.base_url),
    ("cluster.server", {"server": None}, "server is not set"),
    ("cluster.server", {"server": "127.0.0.1:6443"}, "server must be a URL that begins with https://"),
    ("cluster.server", {"server": "https://"}, "server must be a URL"),
    ("cluster.server", {"server": "https://x:70000"}, "server must be a URL"),
    ("cluster.server", {"server": "https://me:s3cret@x"}, "server must have no user"),
    (
        "cluster.tls-server-name",
        {"tls-server-name": "api"},
        lambda client: client.pool.connection_pool_kw["server_hostname"] == "api",
    ),
    (
        "cluster.insecure-skip-tls-verify",
        {"insecure-skip-tls-verify": True},
        lambda client: _context(client).verify_mode is ssl.CERT_NONE,
    ),
    ("cluster.insecure-skip-tls-verify", {"insecure-skip-tls-verify": "false"}, "Expected `bool`, got `str`"),
    (
        "cluster.insecure-skip-tls-verify",
        {"insecure-skip-tls-verify": True, "certificate-authority": "ca"},
        "insecure-skip-tls-verify excludes certificate-authority",
    ),
    ("cluster.certificate-authority", {"certificate-authority": "ca"}, _trusts),
    ("cluster.certificate-authority", {"certificate-authority": "missing"}, "missing: No such file"),
    (
        "cluster.certificate-authority",
        {"certificate-authority": "ca", "certificate-authority-data": _CA},
        "certificate-authority and certificate-authority-data exclude each other",
    ),
    ("cluster.certificate-authority-data", {"certificate-authority-data": f"{_CA[:9]} {_CA[9:]}\n"}, _trusts),
    (
        "cluster.certificate-authority-data",
        {"certificate-authority-data": "*"},
        "certificate-authority-data is no base",
    ),
    ("cluster.certificate-authority-data", {"certificate-authority-data": "YWJj"}, "authority is not PEM"),
    ("cluster.proxy-url", {"proxy-url": "http://me:s3cret@p:1"}, lambda client: client.pool.proxy.url == "http://p:1"),
    ("cluster.proxy-url", {"proxy-url": "ftp://me:s3cret@p"}, "proxy-url must be a URL with a host"),
    ("cluster.proxy-url", {"proxy-url": "p:3128"}, "proxy-url must be a URL with a host"),
    ("cluster.proxy-url", {"proxy-url": "http://me:s3@cret@p"}, "proxy-url has an @ that is not before the host"),
    ("cluster.disable-compression", {"disable-compression": True}, _is("Accept-Encoding", None)),
    ("cluster.disable-compression", {"disable-compression": False}, _is("Accept-Encoding", "gzip")),
    ("cluster.extensions", {"extensions": [{"name": "e", "extension": {"a": 1}}]}, _works),
    ("user.client-certificate", {"client-certificate": "certificate", "client-key": "key"}, _works),
    ("user.client-certificate", {"client-certificate": "certificate"}, "needs both client-certificate and client-key"),
    ("user.client-certificate", {"client-certificate": "x", **_BOTH}, "client-certificate-data exclude each other"),
    ("user.client-certificate-data", _BOTH, _works),
    ("user.client-key", {"client-key": "key"}, "needs both client-certificate and client-key"),
    ("user.client-key", {"client-key": "key", **_BOTH}, "client-key and client-key-data exclude each other"),
    ("user.client-key-data", {**_BOTH, "client-key-data": f"{_KEY[:9]}\n {_KEY[9:]}"}, _works),
    ("user.client-key-data", {**_BOTH, "client-key-data": "YWJj"}, "certificate or key is not usable"),
    ("user.token", {"token": "t", "TOKEN": "u"}, _is("Authorization", "Bearer t")),
    ("user.token", {"token": 12345}, r"Expected `str \| null`, got `int` - at `\$.token`"),
    ("user.tokenFile", {"tokenFile": "token"}, _is("Authorization", "Bearer of a file")),
    ("user.tokenFile", {"tokenFile": "missing"}, "missing: No such file"),
    ("user.tokenFile", {"tokenFile": "empty"}, "the tokenFile is empty"),
    ("user.as", {"as": "jane"}, _is("Impersonate-User", "jane")),
    ("user.as-uid", {"as": "jane", "as-uid": "7"}, _is("Impersonate-Uid", "7")),
    ("user.as-uid", {"as-uid": "7"}, "as-uid, as-groups and as-user-extra need as"),
    ("user.as-groups", {"as": "jane", "as-groups": ["a"]}, _is("Impersonate-Group", "a")),
    ("user.as-groups", {"as-groups": ["a"]}, "as-uid, as-groups and as-user-extra need as"),
    ("user.as-groups", {"as": "jane", "as-groups": "a"}, "Expected `array`, got `str`"),
    ("user.as-user-extra", {"as": "jane", "as-user-extra": {"k": ["v"]}}, _is("Impersonate-Extra-K", "v")),
    ("user.as-user-extra", {"as-user-extra": {"k": ["v"]}}, "as-uid, as-groups and as-user-extra need as"),
    ("user.username", {"username": "a", "token": "t"}, "token and username exclude each other"),
    ("user.username", {"username": "a", "tokenFile": "token"}, "token and username exclude each other"),
    ("user.password", {"username": "a", "password": "b"}, _is("Authorization", "Basic YTpi")),
    ("user.password", {"password": "s3cret"}, "password needs username"),
    ("user.auth-provider", {"auth-provider": None}, _is("Authorization", None)),
    ("user.auth-provider", {"auth-provider": {"name": "oidc"}, "exec": _PLUGIN}, "auth-provider and exec exclude"),
    ("user.exec", {"exec": _PLUGIN}, _is("Authorization", "Bearer of a plugin")),
    ("user.extensions", {"extensions": [{"name": "e", "extension": None}]}, _works),
    ("context.cluster", {"cluster": None}, "the context 'x': names no cluster"),
    ("context.cluster", {"cluster": "d"}, "clusters has no entry 'd'"),
    ("context.user", {"user": None}, _works),
    ("context.user", {"user": "v"}, "users has no entry 'v'"),
    ("context.namespace", {"namespace": "vnf"}, _works),
    ("context.namespace", {"namespace": 7}, r"got `int` - at `\$.namespace`"),
    ("context.extensions", {"extensions": []}, _works),
    ("exec.command", {"command": ""}, "exec: command is not set"),
    ("exec.command", {"command": None}, r"missing required field `command` - at `\$.exec`"),
    ("exec.args", {"args": ["answer"]}, _works),
    ("exec.args", {"args": "answer"}, r"at `\$.exec.args`"),
    ("exec.env", {"env": [{"name": "A", "value": "b"}]}, _works),
    ("exec.env", {"env": [{"name": "", "value": "b"}]}, "a variable of env has no name"),
    ("exec.apiVersion", {"apiVersion": "client.authentication.k8s.io/v9"}, "apiVersion must be one of"),
    ("exec.installHint", {"installHint": "apt install it", "command": "./missing"}, "apt install it"),
    ("exec.provideClusterInfo", {"provideClusterInfo": True}, _works),
    ("exec.interactiveMode", {"interactiveMode": "IfAvailable"}, _works),
    ("exec.interactiveMode", {"interactiveMode": "Always"}, "interactiveMode Always needs a terminal"),
    ("exec.interactiveMode", {"interactiveMode": "Often"}, "interactiveMode must be Never or IfAvailable"),
    ("auth-provider.name", {"name": "gcp"}, "auth-provider is not supported; use exec instead"),
    ("auth-provider.config", {"config": {"id-token": "i"}}, _is("Authorization", "Bearer i")),
    ("auth-provider.config", {"config": {}}, "auth-provider is not supported; use exec instead"),
]


@pytest.mark.parametrize(("field", "values", "expected"), CASES)
def test_each_field_works_as_for_kubectl_or_is_refused_by_name(tmp_path, monkeypatch, field, values, expected):
    monkeypatch.chdir(tmp_path)
    _PEM.cert_pem.write_to_path(tmp_path / "ca")
    _LEAF.cert_chain_pems[0].write_to_path(tmp_path / "certificate")
    _LEAF.private_key_pem.write_to_path(tmp_path / "key")
    (tmp_path / "token").write_text("of a file\n")
    (tmp_path / "empty").touch()
    answer = {"apiVersion": _V1, "kind": "ExecCredential", "status": {"token": "of a plugin"}}
    (tmp_path / "answer").write_text(json.dumps(answer))
    kind = field.partition(".")[0]
    document = json.loads(write(tmp_path / "kubeconfig", _HTTPS).read_text())
    user = document["users"][0]["user"]
    if kind == "exec":
        user["exec"] = dict(_PLUGIN)
    if kind == "auth-provider":
        user["auth-provider"] = {"name": "oidc"}
    target = {
        "config": document,
        "cluster": document["clusters"][0]["cluster"],
        "context": document["contexts"][0]["context"],
        "user": user,
    }
    (target | user)[kind].update(values)
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    if callable(expected):
        assert expected(_load(tmp_path / "kubeconfig"))
    else:
        with pytest.raises(CredentialsError, match=expected) as caught:
            _load(tmp_path / "kubeconfig")
        assert str(tmp_path) in str(caught.value) or kind == "exec"
        assert "s3cret" not in str(caught.value)


def test_each_field_of_a_kubeconfig_has_a_case():
    assert {field for field, _, _ in CASES} == {f"{kind}.{f}" for kind in FIELDS for f in FIELDS[kind].split()}
    for kind, struct in _TYPES.items():
        assert {field.encode_name for field in msgspec.structs.fields(struct)} == set(FIELDS[kind].split()), kind


_YAML: Final = """
clusters: [{name: NAME, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: a, token: b}}]
contexts: [{name: NAME, context: {cluster: NAME, user: u}}]
current-context: NAME
"""


@pytest.mark.parametrize("name", ["2024-01-01", "2026-99-99", "2001-12-14t21:59:43.10-05:00", "'123'", '"no"', "a b"])
def test_a_name_like_a_date_is_a_name_and_the_last_of_equal_keys_wins(tmp_path, name):
    (tmp_path / "kubeconfig").write_text(_YAML.replace("NAME", name))
    assert _header(tmp_path / "kubeconfig") == "Bearer b"
    assert read_kubeconfig(str(tmp_path / "kubeconfig"), name.strip("'\"")).cluster.values.server == _HTTPS


@pytest.mark.parametrize("name", ["123", "no", "1.0", "0x10", "010", "true"])
def test_a_name_that_is_a_number_or_a_boolean_for_kubectl_is_refused(tmp_path, name):
    (tmp_path / "kubeconfig").write_text(_YAML.replace("NAME", name))
    with pytest.raises(CredentialsError, match="must be a string; put it into quotes"):
        _load(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text + "---\nother: document\n",
        lambda text: "server: &s https://127.0.0.1:1\n" + text.replace("'https://127.0.0.1:1'", "*s"),
        lambda text: text.replace("{server:", "{<<: {disable-compression: true}, server:"),
        lambda text: json.dumps(yaml.safe_load(text), indent="\t"),
        lambda text: text.replace("name: u,", "name: u, 7: {}, extra: null,"),
    ],
    ids=["byte order mark", "CRLF", "two documents", "anchor", "merge", "JSON with tabs", "unknown"],
)
def test_what_kubectl_reads_is_read(tmp_path, change):
    (tmp_path / "kubeconfig").write_bytes(change(_YAML.replace("NAME", "n")).encode())
    assert _header(tmp_path / "kubeconfig") == "Bearer b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "current-context is not set"),
        ("[]", "is no kubeconfig"),
        ("users:\n- user: {token: 'sensitive\n", "is no YAML"),
        ("users:\n- user: {token: !!bool sensitive}", "is no YAML"),
        ("users:\n- user: {token: !!timestamp sensitive}", "is no YAML"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: &c {extensions: *c}}]",
            "the cluster 'c'",
        ),
        ("clusters: []", "current-context is not set"),
        ("current-context: x", "contexts has no entry 'x'"),
        ("current-context: x\ncontexts: {x: y}", "contexts must be a list"),
        ("current-context: x\ncontexts: [{name: x, context: {}}]", "the context 'x': names no cluster"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "clusters has no entry 'c'"),
        ("current-context: x\ncontexts: [{name: x}, {name: x}]", "contexts has two entries 'x'"),
    ],
)
def test_a_file_that_cannot_work_is_named_with_what_it_lacks(tmp_path, content, message):
    (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(KubeconfigError, match=message) as caught:
        read_kubeconfig(str(tmp_path / "kubeconfig"), None)
    assert "kubeconfig" in str(caught.value)
    assert "sensitive" not in str(caught.value)


def test_a_missing_or_a_huge_file_and_a_loop_are_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(KubeconfigError, match="loop: Too many levels of symbolic links"):
        read_kubeconfig(str(tmp_path / "loop"), None)
    with pytest.raises(KubeconfigError, match="there is no such file"):
        read_kubeconfig(str(tmp_path / "missing"), None)
    (tmp_path / "huge").write_bytes(b"#" * 5_000_000)
    with pytest.raises(KubeconfigError, match="is larger than"):
        read_kubeconfig(str(tmp_path / "huge"), None)


@pytest.mark.parametrize("by_option", [True, False])
def test_what_cannot_work_is_refused_at_the_start_without_running_a_program(tmp_path, monkeypatch, by_option):
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS, group="source_edge")
    conf([], default_config_files=[])
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    if by_option:
        conf.set_override("kubeconfig", str(path), group="source_edge")
    with pytest.raises(ConfigError, match=r"\[source_edge\] kubeconfig: .*there is no such file"):
        read_target("edge", conf)
    runs = {"exec": {"apiVersion": _V1, "command": "touch", "args": [str(tmp_path / "ran")]}}
    write(path, _HTTPS, runs)
    read_target("edge", conf)
    assert not (tmp_path / "ran").exists()
    write(path, _HTTPS, **{"proxy-url": "ftp://p"})
    with pytest.raises(ConfigError, match=r"\[source_edge\] kubeconfig: .*proxy-url must be a URL"):
        read_target("edge", conf)
