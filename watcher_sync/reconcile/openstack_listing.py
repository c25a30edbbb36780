# SPDX-License-Identifier: Apache-2.0
"""A reconciler that lists a service of an OpenStack cloud; the account, the requests and their failures are here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.conf import cloud_account
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.listing import ListingReconciler
from watcher_sync.reconcile.openstack import CloudClient as CloudClient
from watcher_sync.reconcile.openstack import OpenStackCloud
from watcher_sync.reconcile.openstack_errors import CloudError as CloudError
from watcher_sync.reconcile.openstack_errors import CloudRequestRefused as CloudRequestRefused
from watcher_sync.reconcile.openstack_errors import UnreadableAnswer


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

    @property
    def _group(self) -> str:
        return f"reconciler_{self.name}"

    def scopes(self) -> Sequence[str]:
        """Return the name of the reconciler, if the section names an account."""
        named = self.conf[self._group].cloud or cloud_account.plugin_of(self.conf, self._group)
        return [self.name] if named else []

    def client(self, deadline: float) -> CloudClient:
        """Make the client of one run: its ``get`` and ``read`` are requests with the account.

        :param deadline: that of :meth:`list_live`.
        """
        assert self._cloud is not None, "a reconciler without an account has no scope"
        return self._cloud.client(deadline)


def pages(
    client: CloudClient, service: str, path: str, *, key: str, params: Mapping[str, str] | None = None, version: str
) -> Iterator[dict[str, Any]]:
    """Yield the objects of a collection that has pages by ``limit`` and ``marker``.

    :param service: its type in the catalogue, such as ``block-storage``.
    :param path: the collection below the endpoint, such as ``/volumes/detail``.
    :param key: the member of the answer with the objects, which have ``id`` or ``uuid``.
    :param version: the microversion.
    :raises CloudError: a request failed, or an answer has another form.
    """
    query = dict(params or {})
    while True:
        answer = client.read(_PAGE, service, path, params=query, microversion=version)
        found = answer.get(key)
        if not isinstance(found, list) or not all(isinstance(each, dict) and _id(each) for each in found):
            raise UnreadableAnswer(f"{service} {path}: {key} is not a list of objects with an id")
        yield from found
        # The link to the next page has a name of its own in each service: next, volumes_links, volume_type_links.
        if not found or not any(answer[name] for name in answer if name == "next" or name.endswith("_links")):
            return
        query["marker"] = _id(found[-1])


def _id(found: Mapping[str, Any]) -> Any:
    return found.get("uuid") or found.get("id")


_PAGE = msgspec.json.Decoder(dict[str, Any])
