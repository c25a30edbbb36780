# SPDX-License-Identifier: Apache-2.0
"""One storm by hand: ``python -m tests.faults.storm --seed 7 --seconds 3600 --database mariadb --also all``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faults.storm.plan import OPTIONAL, Settings  # noqa: E402
from tests.faults.storm.run import line_of_own, run  # noqa: E402


def main() -> int:
    """Print the table; the exit status is 1 when the storm was not passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.storm", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--database", choices=("postgresql", "mariadb"), default="postgresql")
    parser.add_argument("--also", action="append", default=[], choices=(*OPTIONAL, "all"))
    parser.add_argument("--only", action="append", default=[], help="an ingredient; the others are off")
    parser.add_argument("--folder", type=Path, help="for configurations and logs; remains")
    given = parser.parse_args()
    # Every process ends with the storm, also when a time limit ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    settings = Settings(
        seed=given.seed, seconds=given.seconds, database=given.database, only=tuple(given.only),
        also=tuple(OPTIONAL) if "all" in given.also else tuple(given.also),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary, line_of_own("storm") as (line, node):
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        storm = run(settings, folder, line, node.port, node)
    print("\n".join([*storm.table(), *storm.failures]))
    return 1 if storm.failures else 0


if __name__ == "__main__":
    sys.exit(main())
