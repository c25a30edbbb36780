# SPDX-License-Identifier: Apache-2.0
"""Kinds of a plugin with references of each shape: to each other, to ours, and to a kind that is not installed."""

from __future__ import annotations

from typing import Annotated

from watcher_sync.model.kinds import Count, Doc, Entity, In, Kinds, Reference, Text, kind
from watcher_sync.testing.kinds import BUILTIN


@kind(
    "storage_pool",
    plural="storage_pools",
    ids_reused=True,
    name_field="label",
    indexes=("parent",),
    references=(Reference("parent", "storage_pool", "runs_on"),),
)
class StoragePool(Entity, frozen=True, kw_only=True, gc=False):
    """A place: volumes run on it, and pools on pools."""

    label: Annotated[Text | None, In("state"), Doc("What people call it.")] = None
    state: Annotated[Text | None, In("state"), Doc("Its state.")] = None
    parent: Annotated[Text | None, In("state"), Doc("The pool that has it.")] = None


@kind(
    "volume",
    plural="volumes",
    name_field="title",
    indexes=("pools", "users", "vault"),
    references=(
        Reference("pools", "storage_pool", "runs_on"),
        Reference("users", "instance", "attached_to"),
        Reference("vault", "vault", "provided_by"),
    ),
)
class Volume(Entity, frozen=True, kw_only=True, gc=False):
    """It runs on several pools, is attached to instances, and refers to a kind that is not installed."""

    title: Annotated[Text | None, In("state"), Doc("What people call it.")] = None
    status: Annotated[Text | None, In("state"), Doc("Its state.")] = None
    pools: Annotated[list[str] | None, In("state"), Doc("The pools that have a copy.")] = None
    users: Annotated[list[str] | None, In("state"), Doc("The instances that use it.")] = None
    vault: Annotated[Text | None, In("state"), Doc("The vault of its key.")] = None


@kind("snapshot", plural="snapshots", indexes=("volume",), references=(Reference("volume", "volume", "runs_on"),))
class Snapshot(Entity, frozen=True, kw_only=True, gc=False):
    """It runs on what runs on a place."""

    volume: Annotated[Text | None, In("state"), Doc("The volume that it is of.")] = None


@kind(
    "policy",
    plural="policies",
    indexes=("volumes",),
    references=(Reference("volumes", "volume", "member_of", lists_dependents=True),),
)
class Policy(Entity, frozen=True, kw_only=True, gc=False):
    """It names its members, has no name and no state, and its plural is no word with an s."""

    volumes: Annotated[list[str] | None, In("state"), Doc("The volumes that it is for.")] = None
    copies: Annotated[Count | None, In("state"), Doc("How many copies each of them has.")] = None


def plugin_kinds() -> Kinds:
    """Ours and the plugin's."""
    return Kinds(*BUILTIN, StoragePool, Volume, Snapshot, Policy)
