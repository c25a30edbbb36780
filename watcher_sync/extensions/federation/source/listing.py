# SPDX-License-Identifier: Apache-2.0
"""Lists the ids of a region's entities, for a comparison with the model.

It uses its own connection. So it changes nothing of a source that follows the region meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import msgspec
from oslo_config import cfg

from watcher_sync.conf import opts
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.federation.source.options import OPTIONS, read_settings


class Listing(msgspec.Struct):
    """The ids that a region has."""

    ids: dict[str, set[str]] = {}
    """Kind -> ids without the prefix. A kind that the region does not have is missing."""
    requests: int = 0
    """Calls of the region's API, or readings of its log."""
    seq: int | None = None
    """The lowest head of the region's journal that a page had, or that of its log; None: there was no page."""
    message: int = 0
    """Up to which message the stream of the log was read; 0: the region was listed by its API."""


def list_ids(conf: cfg.ConfigOpts, source: str, kinds: Collection[str], deadline: float) -> Listing:
    """List these kinds of a region completely.

    :param source: one that follows a region.
    :param deadline: ``time.monotonic()`` by which the listing has to end.
    :raises ConfigError: naming the option of the source that is wrong.
    :raises SourceError: the listing is not complete.
    """
    group = conf[f"source_{source}"]
    if group.driver == "federation_log":
        from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS, LogSettings
        from watcher_sync.extensions.federation.source.region_log import list_log

        opts.register_source(conf, source, LOG_OPTIONS)
        ids, seq, message = list_log(LogSettings(source, group), kinds, deadline)
        return Listing(ids, requests=1, seq=seq, message=message)
    opts.register_source(conf, source, OPTIONS)
    # Imported here: the client loads for long, and most processes only read the options.
    from watcher_sync.client import ClientError
    from watcher_sync.extensions.federation.source.region import Region

    listing = Listing(requests=1)
    try:
        region = Region(read_settings(source, group), group)
        for kind, path in region.kinds().items():
            if kind not in kinds:
                continue
            found = listing.ids.setdefault(kind, set())
            for page in region.pages(path):
                found.update(document.id for document, _ in page.entities)
                listing.requests += 1
                listing.seq = page.seq if listing.seq is None else min(listing.seq, page.seq)
                if time.monotonic() > deadline:
                    raise SourceError("the listing has not ended in time")
    except ClientError as exc:
        raise SourceError(str(exc) or type(exc).__name__) from None
    return listing
