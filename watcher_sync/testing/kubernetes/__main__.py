# SPDX-License-Identifier: Apache-2.0
"""The server by itself, for kubectl and for other processes::

    python -m watcher_sync.testing.kubernetes --port 8001 --pods 100 --kubeconfig kubeconfig
    kubectl --kubeconfig kubeconfig get pods

It prints its address once it listens, and ends with SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from typing import Final

from watcher_sync.testing.kubernetes.population import populate
from watcher_sync.testing.kubernetes.server import KubernetesServer

_ENDS: Final = {signal.SIGTERM, signal.SIGINT}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m watcher_sync.testing.kubernetes", description="A fake Kubernetes API server."
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--pods", type=int, default=0, metavar="N", help="running pods to begin with")
    parser.add_argument("--kubeconfig", metavar="FILE", help="write a kubeconfig for kubectl and clients")
    parser.add_argument("--token", help="ask for this bearer token")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbits(32), help="of uids and generated names; default: another each time"
    )
    parser.add_argument("--history-limit", type=int, default=10_000, metavar="N", help="writes a watch may go back")
    parser.add_argument("--no-controllers", action="store_true", help="nothing happens but what clients write")
    arguments = parser.parse_args(argv)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # before the threads, which inherit it
    server = KubernetesServer(
        host=arguments.host,
        port=arguments.port,
        seed=arguments.seed,
        history_limit=arguments.history_limit,
        token=arguments.token,
    )
    populate(server, arguments.pods)
    try:
        server.start()
    except OSError as exc:
        print(f"--port {arguments.port}: {exc}", file=sys.stderr)
        return 1
    with server:
        if arguments.kubeconfig:
            server.kubeconfig(arguments.kubeconfig)
        if not arguments.no_controllers:
            server.cluster.run()
        print(server.url, flush=True)
        signal.sigwait(_ENDS)
        server.cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
