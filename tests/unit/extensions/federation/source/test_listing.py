# SPDX-License-Identifier: Apache-2.0
"""A listing of a region is complete, or an error: never a part that looks like the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from watcher_sync.client import ClientError
from watcher_sync.conf import opts
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.federation.source import region
from watcher_sync.extensions.federation.source.listing import list_ids
from watcher_sync.extensions.federation.source.region import RegionPage
from watcher_sync.extensions.federation.source.region_source import followed_sites
from watcher_sync.extensions.federation.source.states import decode_document

LISTS = {"/v1/instances": [["a", "b"], ["c"]], "/v1/pods": [[]], "/v1/workloads": [["w"]]}
"""Path -> the ids of each page."""


class Region:
    """Answers with these lists. A page has a higher seq than the one before."""

    def __init__(self, *_: object) -> None:
        self._seq = 40

    def kinds(self) -> dict[str, str]:
        return {"instance": "/v1/instances", "pod": "/v1/pods", "workload": "/v1/workloads"}

    def pages(self, path: str) -> Iterator[RegionPage]:
        for ids in LISTS[path]:
            self._seq += 1
            texts = [b'{"id": "%s", "seq": 1, "versions": {}}' % each.encode() for each in ids]
            yield RegionPage([(decode_document(text), text) for text in texts], self._seq, "")


class BrokenRegion(Region):
    """Fails on the second page."""

    def pages(self, path: str) -> Iterator[RegionPage]:
        yield next(super().pages(path))
        raise ClientError("the region is unavailable")


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    file = tmp_path / "c.conf"
    file.write_text(
        "[engine]\nenabled_sources = north,south,east,other\n"
        "[source_north]\ndriver = federation\nendpoint = https://north.example.com\n"
        "[source_south]\ndriver = federation\nsite = s1\nendpoint = https://south.example.com\n"
        "[source_east]\ndriver = federation_log\nsite = e1\n"
        "[source_other]\ndriver = replay\n"
    )
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    return conf


def test_the_sites_are_those_of_the_sources_that_follow_a_region(conf: cfg.ConfigOpts) -> None:
    assert followed_sites(conf) == {"north": "north", "south": "s1", "east": "e1"}


def test_it_has_the_ids_of_all_pages_of_the_kinds_and_the_lowest_seq(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "Region", Region)
    followed_sites(conf)
    found = list_ids(conf, "north", {"instance", "pod", "host"}, math.inf)
    assert (found.ids, found.requests, found.seq) == ({"instance": {"a", "b", "c"}, "pod": set()}, 4, 41)


@pytest.mark.parametrize(
    ("made", "ends_at", "reason"),
    [(BrokenRegion, math.inf, "the region is unavailable"), (Region, -math.inf, "has not ended in time")],
)
def test_a_part_of_a_list_is_an_error(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch, made: type[Region], ends_at: float, reason: str
) -> None:
    monkeypatch.setattr(region, "Region", made)
    followed_sites(conf)
    with pytest.raises(SourceError, match=reason):
        list_ids(conf, "south", {"instance"}, ends_at)
