# SPDX-License-Identifier: Apache-2.0
"""The pages of the lists of OpenStack's APIs, while entries come and go between two pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from oslo_log import log as logging

from watcher_sync.extensions.openstack.cloud.errors import CloudBadRequest, CloudNotFound, UnreadableAnswer

LOG = logging.getLogger(__name__)

_MAX_STEPS: Final = 5
"""How often one list goes back because the entry of its marker is gone."""
_MAX_BEGINS: Final = 4
"""How often one list by offset begins because its entries move."""

T = TypeVar("T")


def by_marker(
    where: str, read: Callable[[Mapping[str, str]], T], next_marker: Callable[[T], str | None],
    refused: Callable[[str], object] = len,
) -> Iterator[T]:  # fmt: skip
    """Yield the pages of a list by marker.

    If the entry of the marker is gone, the service answers 400 or 404. The list then goes back by a page, and by twice
    as many each next time. So a deletion of many entries costs few requests. Entries may come again.

    :param where: names the list in an error.
    :param read: returns the page of these further parameters.
    :param next_marker: returns the marker of the page after this one; None: it is the last one.
    :param refused: gets each marker that the service refuses.
    :raises CloudError: a page cannot be read, or the service ignores the marker.
    """
    markers: list[str] = []
    steps = 0
    while True:
        try:
            page = read({"marker": markers[-1]} if markers else {})
        except (CloudBadRequest, CloudNotFound) as exc:
            if not markers or steps == _MAX_STEPS:
                raise
            refused(markers[-1])
            LOG.info("The list goes back by %d pages: %s", 2**steps, exc)
            del markers[-(2**steps) :]
            steps += 1
            continue
        yield page
        marker = next_marker(page)
        if marker is None:
            return
        if marker in markers:
            raise UnreadableAnswer(f"{where}: the page after {marker} ends with it again")
        markers.append(marker)


def by_offset(where: str, read: Callable[[int], Sequence[T]], id_of: Callable[[T], Hashable]) -> list[T]:
    """Return the entries of a list by offset.

    Each page begins with the last entry of the page before. If it does not, entries were deleted or added before it,
    and another one would be in no page. So the list begins again.

    :param where: names the list in an error.
    :param read: returns the page from this offset on.
    :raises CloudError: a page cannot be read, or the entries move again and again.
    """
    for _ in range(_MAX_BEGINS):
        found = list(read(0))
        while found:
            page = read(len(found) - 1)
            if not page or id_of(page[0]) != id_of(found[-1]):
                break
            if len(page) == 1:
                return found
            found += page[1:]
        else:
            return found
    raise UnreadableAnswer(f"{where}: its entries move while they are listed")
