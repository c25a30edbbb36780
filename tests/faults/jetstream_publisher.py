# SPDX-License-Identifier: Apache-2.0
"""A process that publishes a generated journal on JetStream, to be killed and frozen.

``python -m tests.faults.jetstream_publisher SERVERS STREAM REPLICAS UNTIL``

It follows the contract of outlets: after each open it continues where the log ends. It ends at the seq UNTIL, or with
the status 3 when another publisher has published, and prints each error in a line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.functional.log.jetstream_streams import PARTITION, at, change, make_outlet, snapshot
from tests.functional.log.publishing import publish
from tests.waiting import deadline
from watcher_sync.extensions.log.base import LogChange, Outlet, OutletDeposed, OutletError

DEPOSED = 3
FIRST = 1
"""The seq of the snapshot."""
ENTITIES = 40
_COMMIT = 3
_CALL = 30
_PAUSE_SECONDS = 0.1  # 300 changes a second


def journal(after: int) -> Iterator[list[LogChange]]:
    """What follows a seq, in calls that end with a commit; 0: the snapshot is first."""
    if not after:
        yield snapshot(FIRST, *(f"i-{number}" for number in range(ENTITIES)))
        after = FIRST
    while True:
        end = after + _CALL - after % _COMMIT
        yield [change(s, f"i-{s % ENTITIES}", ends_commit=s % _COMMIT == 0) for s in range(after + 1, end + 1)]
        after = end


def publish_until(outlet: Outlet, until: int) -> None:
    """From where the log ends to a seq.

    :raises OutletError: as the outlet does.
    """
    for changes in journal(outlet.open({}).get(PARTITION, at(0)).seq):
        if changes[0].seq > until:
            return
        publish(outlet, changes)
        time.sleep(_PAUSE_SECONDS)


def main(servers: str, stream: str, replicas: str, until: str) -> int:
    """:returns: the exit status."""
    outlet = make_outlet(servers.split(","), stream, replicas=int(replicas), timeout=deadline(2))
    while True:
        try:
            publish_until(outlet, int(until))
        except OutletError as exc:
            print(exc, flush=True)
            if isinstance(exc, OutletDeposed):
                return DEPOSED
            outlet.close()
            time.sleep(_PAUSE_SECONDS)
        else:
            outlet.close()
            return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
