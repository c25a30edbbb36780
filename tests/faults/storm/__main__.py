# SPDX-License-Identifier: Apache-2.0
"""Storms by hand: ``python -m tests.faults.storm --seed 7 --seconds 340 --rounds 9 --database all``.

Each round is a storm with a seed and an installation of its own; the rounds take the databases in turn. In the second
turn messages of the stream are lost, in the third one commits of the database.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import math
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faults.storm.ingredients import ENGINE_SOURCES  # noqa: E402
from tests.faults.storm.plan import DATABASES, OPTIONAL, TURNS, Settings  # noqa: E402
from tests.faults.storm.run import Storm, line_of_own, run  # noqa: E402

_PROGRESS_SECONDS = 60.0


def main() -> int:
    """Print a table for each round and one for all; the exit status is 1 when a storm was not passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.storm", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    parser.add_argument("--seconds", type=float, default=120.0, help="of faults in each round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--within", type=float, default=math.inf, help="seconds; no round begins later")
    parser.add_argument("--database", action="append", default=[], choices=(*DATABASES, "all"))
    parser.add_argument("--also", action="append", default=[], choices=(*OPTIONAL, "all"))
    parser.add_argument("--only", action="append", default=[], help="an ingredient; the others are off")
    parser.add_argument("--folder", type=Path, help="for configurations and logs; remains")
    given = parser.parse_args()
    # Every process ends with the storm, also when a time limit ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    databases = DATABASES if "all" in given.database else tuple(given.database) or DATABASES[:1]
    storms: list[Storm] = []
    began = time.monotonic()
    try:
        for number, database in zip(range(given.rounds), itertools.cycle(databases), strict=False):
            if time.monotonic() - began > given.within:
                break
            also = tuple(given.also) or TURNS[number // len(databases) % len(TURNS)]
            settings = Settings(
                seed=given.seed + number, seconds=given.seconds, database=database, only=tuple(given.only),
                also=tuple(OPTIONAL) if "all" in also else also,
            )  # fmt: skip
            storms.append(Storm(settings))
            _run(storms[-1], given.folder and given.folder / f"round-{number + 1}")
    finally:
        if len(storms) > 1:
            print("\n".join(_summary(storms)), flush=True)
    return 1 if any(storm.failures for storm in storms) else 0


def _run(storm: Storm, given: Path | None) -> None:
    with tempfile.TemporaryDirectory() as temporary, line_of_own("storm") as (line, node), _told(storm):
        folder = given or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run(storm, folder, line, node.port, node)
        finally:
            print("\n".join([*storm.table(), *storm.failures]), flush=True)


@contextmanager
def _told(storm: Storm) -> Iterator[None]:
    """Print a line each minute."""
    stop = threading.Event()

    def tell() -> None:
        while not stop.wait(_PROGRESS_SECONDS):
            print(storm.progress(), flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _summary(storms: Sequence[Storm]) -> list[str]:
    """All rounds in lines."""
    lines = [
        "",
        f"{'round':<18}{'seed':>6}{'faults':>8}{'seconds':>9}{'changes':>10}{'feed':>10}{'webhooks':>10}"
        f"{'compared':>10}{'differences':>13}{'failures':>10}" + "".join(f"{name:>8}" for name in ENGINE_SOURCES),
    ]
    counts: collections.Counter[str] = collections.Counter()
    for number, storm in enumerate(storms, 1):
        verdict = storm.verdict
        slowest = [storm.slowest(source) for source in ENGINE_SOURCES]
        counts.update(each.fault.name for each in storm.happened)
        lines.append(
            f"{f'{number} {storm.settings.database}':<18}{storm.settings.seed:>6}{len(storm.happened):>8}"
            f"{storm.seconds:>9.0f}{verdict.changes:>10,}{verdict.feed_rows:>10,}{verdict.webhooks:>10,}"
            f"{sum(verdict.compared.values()):>10,}{len(verdict.differences):>13}{len(storm.failures):>10}"
            + "".join(f"{seconds:>8.1f}" if seconds is not None else f"{'none':>8}" for seconds in slowest)
        )
    lines.append("The last columns have the slowest first commit of each source after a calm began, in seconds.")
    lines.append(f"{sum(counts.values())} faults: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    return lines


if __name__ == "__main__":
    sys.exit(main())
