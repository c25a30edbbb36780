# SPDX-License-Identifier: Apache-2.0
"""Reads kubeconfig files: the cluster and the user of one context.

The rules are kubectl's. ``$KUBECONFIG`` names several files, separated by colons. The first file that has a cluster,
user, context or current context wins. Paths in a file are relative to its folder. Unknown fields are ignored. Each
field works, or is refused by name.

Reference: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ and
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import binascii
import os
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
import yaml

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source.proxy import ProxyError, parse_proxy

_DEFAULT: Final = "~/.kube/config"
_MAX_BYTES: Final = 4 * 1024 * 1024
_EXEC_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


class KubeconfigError(Exception):
    """A kubeconfig cannot be read, or lacks what is needed; the message names the file."""


class Files:
    """The files that were read, so that a change of one is noticed. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int, int] | None] = {}

    def read(self, path: Path) -> bytes:
        """The content of a file.

        :raises KubeconfigError: the file cannot be read, or is too large.
        """
        self._seen[path] = _state(path)  # before the content: a change in between is one more reading
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except OSError as exc:
            raise KubeconfigError(f"{path}: {exc.strerror or exc}") from None
        if len(content) > _MAX_BYTES:
            raise KubeconfigError(f"{path}: is larger than {_MAX_BYTES} bytes")
        return content

    def exists(self, path: Path) -> bool:
        """Whether there is such a file, perhaps one that cannot be read. One that appears later is a change."""
        self._seen[path] = _state(path)
        try:
            path.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            pass  # the reading tells
        return True

    def have_changed(self) -> bool:
        """Whether a file is not the one that was read."""
        return any(_state(path) != state for path, state in self._seen.items())


def _state(path: Path) -> tuple[int, int, int] | None:
    """Follows links: in a mounted Secret each file is one, and only their common target changes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class KubeconfigCluster(msgspec.Struct, frozen=True, omit_defaults=True, rename="kebab"):
    """How the API server is reached."""

    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[dict[str, Any]] = []


class Variable(msgspec.Struct, frozen=True):
    """A variable of the environment of a credential plugin."""

    name: str
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A credential plugin."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[Variable] | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None
    install_hint: str | None = None


class AuthProvider(msgspec.Struct, frozen=True):
    """The predecessor of the plugins."""

    name: str
    config: dict[str, str] | None = None


class KubeconfigUser(msgspec.Struct, frozen=True, rename="kebab"):
    """Who we are."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    impersonate: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    username: str | None = None
    password: str | None = None
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None
    extensions: list[dict[str, Any]] = []

    @property
    def has_login(self) -> bool:
        """Whether the entry itself says who we are. Then kubectl runs no plugin."""
        return bool(
            self.token or self.token_file or self.username or self.client_certificate or self.client_certificate_data
        )


class KubeconfigContext(msgspec.Struct, frozen=True):
    """Names a cluster and a user."""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None
    """Not used: the option ``namespaces`` says what is followed."""
    extensions: list[dict[str, Any]] = []


_Values = TypeVar("_Values", KubeconfigCluster, KubeconfigUser, KubeconfigContext)
_LISTS: Final[dict[type, str]] = {KubeconfigCluster: "cluster", KubeconfigUser: "user", KubeconfigContext: "context"}


class Section(msgspec.Struct, Generic[_Values], frozen=True):
    """One cluster, context or user, and the file that it is from."""

    path: Path
    name: str
    values: _Values

    def error(self, message: str) -> KubeconfigError:
        """:param message: must have no secret."""
        return KubeconfigError(f"{self.path}: the {_LISTS[type(self.values)]} {self.name!r}: {message}")

    def content(self, key: str, files: Files) -> bytes | None:
        """The content that ``<key>-data`` has in base64, or that the file has which ``key`` names; None: neither.

        :raises KubeconfigError: the data is no base64, or the file cannot be read.
        """
        attribute = "token_file" if key == "tokenFile" else key.replace("-", "_")
        data = getattr(self.values, f"{attribute}_data", None)
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise self.error(f"{key}-data is no base64") from None
        name = getattr(self.values, attribute)
        return files.read(self.path.parent / os.path.expanduser(name)) if name else None


class Kubeconfig(msgspec.Struct, frozen=True):
    """The cluster and the user of one context."""

    cluster: Section[KubeconfigCluster]
    user: Section[KubeconfigUser]
    """Without values if the context names no user."""


def find_paths(given: str | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that count: the given ones, else those of ``$KUBECONFIG``, else the one in the home directory.

    :param given: one path, or several that are separated by colons.
    """
    names = given or environ.get("KUBECONFIG") or _DEFAULT
    return [Path(os.path.expanduser(name)).absolute() for name in names.split(os.pathsep) if name]


def read_kubeconfig(given: str | None, context: str | None, files: Files | None = None) -> Kubeconfig:
    """The cluster and the user of a context. Files that they name are not read yet.

    :param given: see :func:`find_paths`.
    :param context: None: the current context of the files.
    :param files: remembers what was read.
    :raises KubeconfigError: a file cannot be read, lacks what is needed, or has what kubectl or we refuse.
    """
    files = files or Files()
    paths = find_paths(given)
    documents = [(path, _parse(path, files.read(path))) for path in paths if files.exists(path)]
    if not documents:
        raise KubeconfigError(f"{', '.join(map(str, paths))}: there is no such file")
    name = context or next(filter(None, (_current_context(path, document) for path, document in documents)), None)
    if name is None:
        where = ", ".join(str(path) for path, _ in documents)
        raise KubeconfigError(f"{where}: current-context is not set, and no context is given")
    found = _find(documents, KubeconfigContext, name)
    if not found.values.cluster:
        raise found.error("names no cluster")
    user = found.values.user
    config = Kubeconfig(
        cluster=_find(documents, KubeconfigCluster, found.values.cluster),
        user=_find(documents, KubeconfigUser, user) if user else Section(found.path, "", KubeconfigUser()),
    )
    _check_cluster(config.cluster)
    _check_user(config.user)
    return config


def read_service_account() -> Kubeconfig:
    """The cluster that the pod of this process runs in, and the service account of the pod.

    The official client finds both. Its import costs one second and some 50 MB, so only a pod pays for it.

    :raises KubeconfigError: the process runs in no pod.
    """
    from kubernetes import client, config
    from kubernetes.config import incluster_config

    load: Callable[..., None] = config.load_incluster_config
    configuration = client.Configuration()
    try:
        load(client_configuration=configuration)
    except config.ConfigException as exc:
        raise KubeconfigError(f"in_cluster: {exc}") from None
    authority, token = Path(incluster_config.SERVICE_CERT_FILENAME), Path(incluster_config.SERVICE_TOKEN_FILENAME)
    cluster = KubeconfigCluster(server=configuration.host, certificate_authority=authority.name)
    return Kubeconfig(
        cluster=Section(authority, "in_cluster", cluster),
        user=Section(token, "in_cluster", KubeconfigUser(token_file=token.name)),
    )


def _check_cluster(section: Section[KubeconfigCluster]) -> None:
    """:raises KubeconfigError: the cluster has what does not work."""
    cluster = section.values
    if not cluster.server:
        raise section.error("server is not set")
    try:
        url = urllib.parse.urlsplit(cluster.server)
        works = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        works = False
    if not works:
        raise section.error("server must be a URL that begins with https:// or http://")
    if "@" in cluster.server:
        raise section.error("server must have no user; use username and password of the user")
    if cluster.certificate_authority and cluster.certificate_authority_data:
        raise section.error("certificate-authority and certificate-authority-data exclude each other")
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        raise section.error("insecure-skip-tls-verify excludes certificate-authority and certificate-authority-data")
    if cluster.proxy_url:
        try:
            parse_proxy(cluster.proxy_url)
        except ProxyError as exc:
            raise section.error(f"proxy-url {exc}") from None


def _check_user(section: Section[KubeconfigUser]) -> None:
    """:raises KubeconfigError: the user has what does not work."""
    user = section.values
    for key in ("client-certificate", "client-key"):
        attribute = key.replace("-", "_")
        if getattr(user, attribute) and getattr(user, f"{attribute}_data"):
            raise section.error(f"{key} and {key}-data exclude each other")
    if bool(user.client_certificate or user.client_certificate_data) != bool(user.client_key or user.client_key_data):
        raise section.error("needs both client-certificate and client-key")
    if (user.token or user.token_file) and (user.username or user.password):
        raise section.error("token and username exclude each other")
    if user.password and not user.username:
        raise section.error("password needs username")
    if not user.impersonate and (user.as_uid or user.as_groups or user.as_user_extra):
        raise section.error("as-uid, as-groups and as-user-extra need as")
    provider = user.auth_provider
    if provider is not None:
        if user.exec is not None:
            raise section.error("auth-provider and exec exclude each other")
        if provider.name != "oidc" or not (provider.config or {}).get("id-token"):
            raise section.error("auth-provider is not supported; use exec instead")
    if user.exec is not None:
        _check_exec(section, user.exec)


def _check_exec(section: Section[KubeconfigUser], entry: Exec) -> None:
    if not entry.command:
        raise section.error("exec: command is not set")
    if entry.api_version not in _EXEC_VERSIONS:
        raise section.error(f"exec: apiVersion must be one of {', '.join(_EXEC_VERSIONS)}")
    if entry.interactive_mode == "Always":
        raise section.error("exec: interactiveMode Always needs a terminal, and there is none")
    if entry.interactive_mode not in (None, "", "Never", "IfAvailable"):
        raise section.error("exec: interactiveMode must be Never or IfAvailable")
    if not all(variable.name for variable in entry.env or ()):
        raise section.error("exec: a variable of env has no name")


def _current_context(path: Path, document: Mapping[str, Any]) -> str | None:
    name = document.get("current-context")
    if name is not None and not isinstance(name, str):
        raise KubeconfigError(f"{path}: current-context must be a string; put it into quotes")
    return name or None


def _find(documents: list[tuple[Path, Mapping[str, Any]]], kind: type[_Values], name: str) -> Section[_Values]:
    key = _LISTS[kind]
    for path, document in documents:
        found = [item for item in _items(path, document, f"{key}s") if item.get("name", "") == name]
        if len(found) > 1:
            raise KubeconfigError(f"{path}: {key}s has two entries {name!r}")
        if found:
            values = found[0].get(key)
            try:
                return Section(path, name, msgspec.convert(_without_nulls({} if values is None else values), kind))
            except (msgspec.ValidationError, RecursionError) as exc:  # names a field and types, and no value
                raise KubeconfigError(f"{path}: the {key} {name!r}: {exc}") from None
    where = ", ".join(str(path) for path, _ in documents)
    raise KubeconfigError(f"{where}: {key}s has no entry {name!r}")


def _without_nulls(value: Any) -> Any:
    """Null is the same as absent for kubectl."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None and isinstance(key, str)}
    return value


def _items(path: Path, document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    listed = document.get(key)
    listed = [] if listed is None else listed
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise KubeconfigError(f"{path}: {key} must be a list of mappings")
    for item in listed:
        if not isinstance(item.get("name") or "", str):
            raise KubeconfigError(f"{path}: each name in {key} must be a string; put it into quotes")
    yield from listed


class _KubectlLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Leaves dates what they are for kubectl: strings."""


_KubectlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        document = _decode(content)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as exc:
        # PyYAML raises LookupError and AttributeError for a value that does not fit its tag.
        # The parser's message may quote a line with a secret: only the place is repeated.
        mark = getattr(exc, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise KubeconfigError(f"{path}: is no YAML{place}") from None
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is no kubeconfig")
    for key, value in (("apiVersion", "v1"), ("kind", "Config")):
        if document.get(key) not in (None, "", value):
            raise KubeconfigError(f"{path}: {key} must be {value}")
    return document


def _decode(content: bytes) -> Any:
    """The first document; an empty one has no entries.

    :raises ValueError, yaml.YAMLError, LookupError, AttributeError, RecursionError: the content is no YAML.
    """
    if content.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(content)  # which may have tabs, and YAML not
        except UNDECODABLE:
            pass
    document = next(iter(yaml.load_all(content, _KubectlLoader)), None)  # noqa: S506 - a SafeLoader
    return {} if document is None else document
