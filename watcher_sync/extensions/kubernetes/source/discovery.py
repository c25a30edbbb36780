# SPDX-License-Identifier: Apache-2.0
"""Finds where an API server serves a kind: plural, scope, and version.

A kind is gone only if no version of its group has it, and each version says what it has. A version ceases in a normal
upgrade of a CustomResourceDefinition, and an aggregated API server may be away. So a 404 of one version says nothing of
the objects. An entry of the configuration that names no version goes on with one that is served.

Pure but for the reader that a caller gives; for any thread.

Reference: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source.connection import (
    ApiError,
    KubernetesError,
    NotServed,
    TooLarge,
    TransportError,
)
from watcher_sync.extensions.kubernetes.source.resources import Resource

MAX_BYTES: Final = 4 << 20
"""The maximum size of a document. That of a group with hundreds of kinds has less than 1 MiB."""
_MAX_VERSIONS: Final = 64
"""Versions of one group. Each may cost a request."""
_NAME: Final = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
"""A label of DNS, as Kubernetes names versions and plurals. A server may name a part of another path otherwise."""

Read = Callable[[str], bytes]
"""Returns the document at a path. :raises KubernetesError: the request failed."""


class _ResourceEntry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True


class _ResourceList(msgspec.Struct):
    resources: list[_ResourceEntry]


class _Version(msgspec.Struct):
    version: str

    def __post_init__(self) -> None:
        if _NAME.match(self.version) is None:
            raise ValueError(f"{self.version[:63]!r} is no version")


class _ApiGroup(msgspec.Struct, rename="camel"):
    versions: Annotated[list[_Version], msgspec.Meta(max_length=_MAX_VERSIONS)]
    preferred_version: _Version | None = None


def find(named: Resource, read: Read) -> Resource:
    """Return a resource with plural, scope and version.

    :param named: as the configuration names it; its version may be empty.
    :raises NotServed: the server answered that no version has the kind.
    :raises KubernetesError: a request failed, other versions than the named one have the kind, or the server does not
        say which do.
    """
    if named.version:
        try:
            found = _at_version(named, read)
        except ApiError as exc:
            if exc.code != 404:
                raise
            found = None
        if found is not None:
            return found
    return _in_group(named, read)


def _in_group(named: Resource, read: Read) -> Resource:
    """Ask for all versions of the group, the preferred one first."""
    missing = f"the server does not serve the kind {named.kind} in {named.base}"
    if not named.group:
        raise KubernetesError(missing)  # no document lists the versions of the core group with certainty
    try:
        group = _document(f"/apis/{named.group}", read, _ApiGroup)
    except ApiError as exc:
        if exc.code != 404:
            raise
        raise NotServed(missing) from exc
    preferred = [group.preferred_version] if group.preferred_version is not None else []
    serving: list[str] = []
    failure: ApiError | None = None
    for version in dict.fromkeys(each.version for each in (*preferred, *group.versions)):
        try:
            found = _at_version(msgspec.structs.replace(named, version=version), read)
        except ApiError as exc:  # such as 503 of an aggregated API server that is away
            failure = exc
            continue
        if found is not None and named.version in ("", version):
            return found
        serving += [version] if found is not None else []
    if serving:
        raise KubernetesError(f"{missing}, but in {', '.join(serving)}")
    if failure is not None:
        raise KubernetesError(f"{missing}, and not each version says what it has: {failure}") from failure
    raise NotServed(missing)


def _at_version(resource: Resource, read: Read) -> Resource | None:
    """Return the resource with its plural and scope; None if its version lacks the kind.

    Other kinds may have odd names, as those of metrics have.
    """
    for entry in _document(resource.base, read, _ResourceList).resources:
        if entry.kind == resource.kind and "/" not in entry.name:
            if _NAME.match(entry.name) is None:
                raise TransportError(
                    f"discovery of {resource.base}: {entry.name[:63]!r} is not the plural of {resource.kind}"
                )
            return msgspec.structs.replace(resource, plural=entry.name, namespaced=entry.namespaced)
    return None


_Document = TypeVar("_Document")


def _document(path: str, read: Read, type_: type[_Document]) -> _Document:
    """:raises TransportError: what is at the path is no such document, or is too large."""
    try:
        return msgspec.json.decode(read(path), type=type_)
    except (*UNDECODABLE, TooLarge) as exc:
        raise TransportError(f"discovery of {path}: {exc}") from exc
