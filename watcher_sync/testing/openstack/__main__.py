# SPDX-License-Identifier: Apache-2.0
"""The cloud by itself, for the openstack command and for other processes::

    python -m watcher_sync.testing.openstack --hosts 10 --servers 200 --clouds-yaml clouds.yaml
    OS_CLIENT_CONFIG_FILE=clouds.yaml openstack --os-cloud fake server list --all-projects --no-name-lookup

It prints the URL of Keystone once it listens, and ends with SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Final

from watcher_sync.testing.openstack.cloud import FakeOpenStack
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.population import populate

_ENDS: Final = {signal.SIGTERM, signal.SIGINT}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m watcher_sync.testing.openstack", description="A fake Keystone, Nova and Placement."
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--hosts", type=int, default=3, metavar="N", help="compute hosts (%(default)s)")
    parser.add_argument("--servers", type=int, default=10, metavar="N", help="servers (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides ids, flavors and states (%(default)s)")
    parser.add_argument("--clouds-yaml", metavar="FILE", help="write a clouds.yaml with the cloud fake")
    arguments = parser.parse_args(argv)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # before the threads, which inherit it
    inventory = Inventory(seed=arguments.seed)
    populate(inventory, hosts=arguments.hosts, servers=arguments.servers, seed=arguments.seed)
    with FakeOpenStack(inventory, host=arguments.host) as cloud:
        if arguments.clouds_yaml:
            cloud.clouds_yaml(arguments.clouds_yaml)
        print(cloud.auth_url, flush=True)
        signal.sigwait(_ENDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
