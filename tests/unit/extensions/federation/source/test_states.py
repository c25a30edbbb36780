# SPDX-License-Identifier: Apache-2.0
"""The events of a region's states: what the region cannot say of itself."""

from __future__ import annotations

import msgspec
import pytest

from watcher_sync.extensions.federation.source.options import Site
from watcher_sync.extensions.federation.source.states import EventMaker, RegionDocument


class Numbered(msgspec.Struct):
    region_epoch: int


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", [b"region_epoch", b"region\\u005fepoch"])
def test_the_number_of_its_epoch_is_never_that_which_the_region_writes(name: bytes, number: int) -> None:
    make = EventMaker(Site(source="north", site="north"))
    make.region_epoch = number
    body = b'{"id":"a","versions":{},"%s":999999}' % name
    assert make.changed("aggregate", RegionDocument("a", 1), body, None).read(Numbered).region_epoch == number
