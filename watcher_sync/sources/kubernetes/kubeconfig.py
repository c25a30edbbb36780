# SPDX-License-Identifier: Apache-2.0
"""Reads kubeconfig files: the cluster and the user of one context.

The rules are kubectl's. ``$KUBECONFIG`` names several files, separated by colons. The first file that has a cluster,
user, context or current context wins. Paths in a file are relative to its folder.

Reference: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

_DEFAULT: Final = "~/.kube/config"
_MAX_BYTES: Final = 4 * 1024 * 1024
_LISTS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}


class KubeconfigError(Exception):
    """A kubeconfig cannot be read, or lacks what is needed; the message names the file."""


class Section(msgspec.Struct, frozen=True):
    """One cluster, context or user, and the file that it is from."""

    path: Path
    name: str
    values: Mapping[str, Any]

    def text(self, key: str) -> str | None:
        """The value of a key; None if it is absent or empty.

        :raises KubeconfigError: the value is no text.
        """
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise KubeconfigError(f"{self.path}: {key} of {self.name!r} must be a string")
        return value

    def flag(self, key: str) -> bool:
        """The value of a boolean key; False if it is absent.

        :raises KubeconfigError: the value is no boolean. A quoted "false" must not count as true.
        """
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise KubeconfigError(f"{self.path}: {key} of {self.name!r} must be true or false")
        return bool(value)

    def content(self, key: str) -> bytes | None:
        """The content that ``<key>-data`` has in base64, or that the file has which ``key`` names.

        :raises KubeconfigError: the data is no base64, or the file cannot be read.
        """
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise KubeconfigError(f"{self.path}: {key}-data of {self.name!r} is no base64") from None
        return self.file_content(key)

    def file_content(self, key: str) -> bytes | None:
        """The content of the file that ``key`` names.

        :raises KubeconfigError: the file cannot be read.
        """
        name = self.text(key)
        return None if name is None else _read(self.path.parent / os.path.expanduser(name))


class Kubeconfig(msgspec.Struct, frozen=True):
    """The cluster and the user of one context."""

    cluster: Section
    user: Section
    """Without values if the context names no user."""


def find_paths(given: str | None, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that count: the given ones, else those of ``$KUBECONFIG``, else the one in the home directory.

    :param given: one path, or several that are separated by colons.
    """
    names = given or environ.get("KUBECONFIG") or _DEFAULT
    return [Path(os.path.expanduser(name)).absolute() for name in names.split(os.pathsep) if name]


def read_files(given: str | None) -> list[tuple[Path, Mapping[str, Any]]]:
    """Each file that exists, and its content.

    :param given: see :func:`find_paths`.
    :raises KubeconfigError: there is no file, or one cannot be read or is no kubeconfig.
    """
    paths = find_paths(given)
    documents = [(path, _parse(path)) for path in paths if path.exists()]
    if not documents:
        raise KubeconfigError(f"{', '.join(map(str, paths))}: there is no such file")
    return documents


def read_kubeconfig(given: str | None, context: str | None) -> Kubeconfig:
    """The cluster and the user of a context.

    :param given: see :func:`find_paths`.
    :param context: None: the current context of the files.
    :raises KubeconfigError: a file cannot be read, or lacks what is needed.
    """
    documents = read_files(given)
    name = context or next((d["current-context"] for _, d in documents if d.get("current-context")), None)
    where = ", ".join(str(path) for path, _ in documents)
    if name is None:
        raise KubeconfigError(f"{where}: current-context is not set, and no context is given")
    found = _find(documents, "contexts", str(name))
    cluster = found.text("cluster")
    if cluster is None:
        raise KubeconfigError(f"{found.path}: the context {name!r} names no cluster")
    user = found.text("user")
    return Kubeconfig(
        cluster=_find(documents, "clusters", cluster),
        user=Section(found.path, "", {}) if user is None else _find(documents, "users", user),
    )


def _find(documents: list[tuple[Path, Mapping[str, Any]]], key: str, name: str) -> Section:
    for path, document in documents:
        for item in _items(path, document, key):
            if item.get("name") == name:
                values = item.get(_LISTS[key]) or {}
                if not isinstance(values, dict):
                    raise KubeconfigError(f"{path}: {_LISTS[key]} {name!r} must be a mapping")
                return Section(path, name, values)
    where = ", ".join(str(path) for path, _ in documents)
    raise KubeconfigError(f"{where}: {key} has no entry {name!r}")


def _items(path: Path, document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    listed = document.get(key) or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise KubeconfigError(f"{path}: {key} must be a list of mappings")
    yield from listed


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(_read(path))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as exc:
        # The parser's message may quote a line with a secret: only the place is repeated.
        mark = getattr(exc, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise KubeconfigError(f"{path}: is no YAML{place}") from None
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is no kubeconfig")
    return document


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise KubeconfigError(f"{path}: {exc.strerror or exc}") from None
    if len(content) > _MAX_BYTES:
        raise KubeconfigError(f"{path}: is larger than {_MAX_BYTES} bytes")
    return content
