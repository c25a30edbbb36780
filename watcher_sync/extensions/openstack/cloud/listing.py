# SPDX-License-Identifier: Apache-2.0
"""A reconciler that lists a service of an OpenStack cloud; the account, the requests and their failures are here."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.conf import cloud_account
from watcher_sync.extensions.openstack.cloud.client import CloudClient as CloudClient
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud, path_of
from watcher_sync.extensions.openstack.cloud.errors import CloudBadRequest as CloudBadRequest
from watcher_sync.extensions.openstack.cloud.errors import CloudError as CloudError
from watcher_sync.extensions.openstack.cloud.errors import CloudNotFound, UnreadableAnswer
from watcher_sync.extensions.openstack.cloud.errors import CloudRequestRefused as CloudRequestRefused
from watcher_sync.extensions.openstack.cloud.pages import by_marker
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.listing import ListingReconciler


class OpenStackReconciler(ListingReconciler):
    """Has the account of ``[reconciler_<name>]``, as ``[reconcile_nova]`` has one; without it there is nothing to list.

    A subclass with options of its own has ``options = [*OpenStackReconciler.options, ...]``.
    """

    options: ClassVar[list[cfg.Opt]] = cloud_account.OPTS
    versions: ClassVar[Mapping[str, str]] = {}
    """Type of a service -> major version of its API, such as ``{"block-storage": "3"}``: it has several endpoints."""

    def __init__(self, conf: cfg.ConfigOpts, context: Context) -> None:
        """:raises ConfigError: the options name two accounts, or one that is not usable."""
        super().__init__(conf, context)
        self._cloud = OpenStackCloud(conf, self._group, versions=self.versions) if self.scopes() else None
        self._run = threading.local()
        """The client of the thread's run, and the run's deadline."""

    @property
    def _group(self) -> str:
        return f"reconciler_{self.name}"

    def scopes(self) -> Sequence[str]:
        """Return the name of the reconciler, if the section names an account."""
        named = self.conf[self._group].cloud or cloud_account.plugin_of(self.conf, self._group)
        return [self.name] if named else []

    def client(self, deadline: float) -> CloudClient:
        """Return the client of a run: its ``get`` and ``read`` are requests with the account.

        A run has one, because a client knows what failed before, and that the catalogue was read again.

        :param deadline: that of :meth:`list_live`.
        """
        assert self._cloud is not None, "a reconciler without an account has no scope"
        if getattr(self._run, "deadline", None) != deadline:
            self._run.deadline, self._run.client = deadline, self._cloud.client(deadline)
        client: CloudClient = self._run.client
        return client


def pages(
    client: CloudClient, service: str, path: str, *, key: str, params: Mapping[str, str] | None = None, version: str
) -> Iterator[dict[str, Any]]:
    """Yield the objects of a collection that has pages by ``limit`` and ``marker``.

    An object may come twice, because entries come and go between two pages. It may have odd values, its id included:
    :func:`~watcher_sync.reconcile.listing.read_entries` reads them.

    :param service: its type in the catalogue, such as ``block-storage``.
    :param path: the collection below the endpoint, such as ``/volumes/detail``.
    :param key: the member of the answer with the objects, which have ``id`` or ``uuid``.
    :param version: the microversion.
    :raises CloudError: a request failed, or an answer has another form.
    """
    where = f"{service} {path}"

    def read(more: Mapping[str, str]) -> dict[str, Any]:
        page = client.read(_PAGE, service, path, params={**(params or {}), **more}, microversion=version)
        if not isinstance(page.get(key), list):
            raise UnreadableAnswer(f"{where}: {key} is not a list")
        return page

    def next_marker(page: Mapping[str, Any]) -> str | None:
        # The link to the next page has a name of its own in each service: next, volumes_links, volume_type_links.
        has_next = page[key] and any(page[name] for name in page if name == "next" or name.endswith("_links"))
        return next(filter(None, map(id_of, reversed(page[key]))), None) if has_next else None

    for page in by_marker(where, read, next_marker):
        yield from page[key]


def resource(
    client: CloudClient, service: str, path: str, entity_id: str, *, key: str | None = None, version: str
) -> dict[str, Any] | None:
    """Return one object of a collection; None if the service does not have it.

    :param path: that of the collection.
    :param key: the member of the answer with the object; None: the answer is the object.
    :param version: the microversion.
    :raises CloudError: the request failed, or the answer has another form.
    :raises ValueError: no path can have the id, so it is unknown whether the service has it.
    """
    where = path_of(path, entity_id)
    try:
        answer = client.read(_PAGE, service, where, microversion=version)
    except CloudNotFound:
        return None
    found = answer if key is None else answer.get(key)
    if not isinstance(found, dict):
        raise UnreadableAnswer(f"{service} {where}: {key} is not an object")
    return found


def id_of(found: Any) -> str | None:
    """Return the id of an object of a service: ``uuid`` or ``id``; None: it has none that is a text."""
    if not isinstance(found, dict):
        return None
    one = found.get("uuid") or found.get("id")
    return one if isinstance(one, str) else None


_PAGE = msgspec.json.Decoder(dict[str, Any])
