# SPDX-License-Identifier: Apache-2.0
"""The plugin that Tempest loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oslo_config import cfg
from tempest import config as tempest_config
from tempest.test_discover import plugins

from watcher_sync_tempest_plugin import config, services


class WatcherSyncTempestPlugin(plugins.TempestPlugin):
    """The tests, their options and the clients of the API."""

    def load_tests(self) -> tuple[str, str]:
        """The folder of the tests, and the folder from which they are imported."""
        package = Path(__file__).parent
        return str(package / "tests"), str(package.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        """Add the options to those of Tempest."""
        conf.register_opt(config.AVAILABLE, group="service_available")
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, group=config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        """The options, for the sample of the configuration."""
        return [("service_available", [config.AVAILABLE]), (config.GROUP.name, config.OPTIONS)]

    def get_service_clients(self) -> list[dict[str, Any]]:
        """The clients, which a test finds as ``os_project_reader.watcher_sync.EntitiesClient()``."""
        clients = {
            "name": config.GROUP.name,
            "service_version": "watcher_sync.v1",
            "module_path": services.__name__,
            "client_names": services.__all__,
        }
        return [{**clients, **tempest_config.service_client_config(config.GROUP.name)}]
