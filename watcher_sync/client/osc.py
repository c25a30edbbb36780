# SPDX-License-Identifier: Apache-2.0
"""The plugin of OpenStackClient: ``openstack watcher-sync entity list instance``.

OpenStackClient finds this module through the entry point group ``openstack.cli.extension``. It loads the commands of
``openstack.watcher_sync.v1``, and calls :func:`make_client` for their client.

The plugin guide of python-openstackclient describes the names that this module must have. The module imports nothing of
OpenStackClient.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from keystoneauth1 import adapter

from watcher_sync.client.client import Client
from watcher_sync.client.transport import SERVICE_TYPE

API_NAME = "watcher_sync"
API_VERSION_OPTION = "os_watcher_sync_api_version"
API_VERSIONS = dict.fromkeys(("1", "1.0"), "watcher_sync.client.client.Client")
DEFAULT_API_VERSION = "1"


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the options of this plugin to those of ``openstack``."""
    parser.add_argument(
        "--os-watcher-sync-api-version",
        metavar="VERSION",
        default=os.environ.get("OS_WATCHER_SYNC_API_VERSION", DEFAULT_API_VERSION),
        help="version of the watcher_sync API, or 1: the newest that both sides know, which is the default "
        "(OS_WATCHER_SYNC_API_VERSION)",
    )
    parser.add_argument(
        "--os-watcher-sync-endpoint",
        metavar="URL",
        default=os.environ.get("WATCHER_SYNC_ENDPOINT"),
        help="root of the watcher_sync API, instead of the service catalog's endpoint (WATCHER_SYNC_ENDPOINT)",
    )
    return parser


def make_client(instance: Any) -> Client:
    """Makes the client. OpenStackClient calls this when the first command needs it.

    :param instance: the ClientManager of osc_lib, with its session.
    """
    config = instance.get_configuration()
    version = str(config.get("watcher_sync_api_version") or DEFAULT_API_VERSION)
    return Client(
        adapter.Adapter(
            instance.session,
            service_type=SERVICE_TYPE,
            interface=instance.interface,
            region_name=instance.region_name,
            endpoint_override=config.get("watcher_sync_endpoint") or config.get("watcher_sync_endpoint_override"),
            default_microversion=config.get("watcher_sync_default_microversion")
            if version == DEFAULT_API_VERSION
            else version,
        )
    )
