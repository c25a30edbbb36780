# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks [--json FILE] [--quick] [--check] [NAME...]``.

Exit status 0 when everything was measured, whatever came out; 1 when something broke, or, with ``--check``,
when a budget was missed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

from watcher_sync.assembly import process

process.prepare()

from rich.console import Console  # noqa: E402 - threads first

from tests.benchmarks import (  # noqa: E402 - threads first
    broker,
    committed,
    compute_models,
    decoding,
    feeding,
    filtering,
    graphs,
    growth,
    jetstream,
    logs,
    machine,
    memory,
    partitions,
    past,
    pods,
    reconciling,
    reconciling_nova,
    replaying,
    watch,
    webhooks,
)
from tests.benchmarks.figures import Figure, document, print_table  # noqa: E402 - threads first
from tests.benchmarks.places import FULL, QUICK, Bench  # noqa: E402 - threads first

BENCHMARKS: dict[str, Callable[[Bench], list[Figure]]] = {
    "machine": machine.machine,
    "decode": decoding.decode,
    "replay": replaying.replay,
    "poison": replaying.poison,
    "rabbitmq": broker.rabbitmq,
    "rabbitmq-stream": broker.streamed,
    "rabbitmq-poison": broker.poisoned,
    "latency": broker.latency,
    "jetstream-pull": jetstream.pulling,
    "jetstream": committed.jetstream,
    "pods": pods.pods,
    "reconcile": reconciling.reconcile,
    "compute-model": compute_models.compute_model,
    "filters": filtering.filters,
    "graph": graphs.graphs,
    "as-of": past.as_of,
    "feed": feeding.feed,
    "reconcile-nova": reconciling_nova.reconcile_nova,
    "webhooks": webhooks.webhooks,
    "webhooks-cost": webhooks.cost,
    "watch": watch.watch,
    "watch-cost": watch.cost,
    "log": logs.logs,
    "log-cost": logs.cost,
    "partitions": partitions.partitions,
    "snapshots": memory.snapshots,
    "memory": memory.memory,
    "growth": growth.growth,
}
"""In this order: what leaves much in memory comes last."""


def main(argv: list[str]) -> int:
    """Measure, show, and say whether it worked."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="The budgets, measured.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once: whether it works at all")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    chosen = [name for name in BENCHMARKS if name in arguments.names or not arguments.names]
    figures: list[Figure] = []
    broken = 0
    begun = datetime.datetime.now(datetime.UTC)
    with tempfile.TemporaryDirectory(prefix="watcher-sync-bench-") as folder:
        bench = Bench(pathlib.Path(folder), QUICK if arguments.quick else FULL)
        for name in chosen:
            began = time.monotonic()
            print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
            try:
                figures += BENCHMARKS[name](bench)
            except Exception:  # noqa: BLE001 - one that breaks costs its own figures only, and the exit status
                traceback.print_exc()
                broken += 1
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    console = Console()
    print_table(figures, console if console.is_terminal else Console(width=160))
    if arguments.json is not None:
        about = {
            "begun": begun,
            "quick": arguments.quick,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        }
        arguments.json.write_bytes(document(figures, **about))
    missed = any(figure.met() is False for figure in figures)
    return 1 if broken or (arguments.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
