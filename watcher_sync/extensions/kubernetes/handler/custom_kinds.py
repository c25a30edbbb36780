# SPDX-License-Identifier: Apache-2.0
"""The kinds that the options ``resources`` and ``kinds`` of the sources name, by cluster and title."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.conf.custom_kinds import KINDS, RESOURCES
from watcher_sync.extensions.kubernetes.conf.namespaces import clusters
from watcher_sync.extensions.kubernetes.wire.custom_kinds import NamedKind, parse_entries, split_name


def read_custom_kinds(conf: cfg.ConfigOpts) -> dict[tuple[str, str], NamedKind]:
    """(cluster, title in lower case) -> the kind, of the enabled sources of the driver ``kubernetes``.

    A resource that cannot be followed is left out here: its source says so.

    :raises ConfigError: naming the option that is wrong.
    """
    found: dict[tuple[str, str], NamedKind] = {}
    for source, cluster, options in clusters(conf, RESOURCES, KINDS):
        split = filter(None, map(split_name, options.resources))
        kinds = [NamedKind(group=group, version=version, kind=kind) for group, version, kind in split]
        try:
            kinds += parse_entries(options.kinds)
        except ValueError as exc:
            raise ConfigError(f"[source_{source}] kinds: {exc}") from None
        found |= {(cluster, kind.title.lower()): kind for kind in kinds}
    return found
