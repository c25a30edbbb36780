# SPDX-License-Identifier: Apache-2.0
"""The configuration files of Keystone and Cinder: one folder, plain values, nothing of the machine's own."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.real_nova.settings import Options, Site, keystone, logging_options, login, token_check, write_config

HOST = "volume-1"
"""The name of the machine of ``cinder-volume``."""

BACKENDS: Mapping[str, tuple[str, ...]] = {"fast": ("fast-a", "fast-b"), "slow": ("slow-a",)}
"""Backend -> its pools. The service of a backend has the host ``volume-1@<backend>``."""

SERVICES = ("keystone", "cinder")
"""What listens on a port."""

CATALOG = {"block-storage": ("cinder", "/v3"), "volumev3": ("cinder", "/v3")}


def write_settings(site: Site) -> None:
    """Write all files."""
    write_config(site, "keystone", keystone(site))
    write_config(site, "cinder", _cinder(site))
    write_config(site, "volume", {"DEFAULT": {"host": HOST}})
    # cinder-api finds its configuration in the home folder only.
    (site.path("home", ".cinder") / "cinder.conf").symlink_to(site.config("cinder"))
    for backend, pools in BACKENDS.items():
        write_pools(site, backend, {pool: figures() for pool in pools})


def figures(total: float = 100.0, free: float = 100.0, provisioned: float = 0.0) -> dict[str, object]:
    """What a pool reports."""
    return {
        "total_capacity_gb": total,
        "free_capacity_gb": free,
        "provisioned_capacity_gb": provisioned,
        "max_over_subscription_ratio": "10.0",
        "reserved_percentage": 5,
    }


def write_pools(site: Site, backend: str, pools: Mapping[str, Mapping[str, object]]) -> None:
    """What the pools of a backend report from now on."""
    path = site.path("shelves") / f"{backend}.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(pools))
    fresh.rename(path)


def _cinder(site: Site) -> Options:
    service = login(site, "cinder")
    backends = {
        backend: {
            "volume_driver": "shelves.ShelvesDriver",
            "volume_backend_name": backend,
            "shelves_state": site.path("shelves") / f"{backend}.json",
        }
        for backend in BACKENDS
    }
    return {
        "DEFAULT": {
            **logging_options(site),
            "transport_url": site.transport_url,
            "my_ip": "127.0.0.1",
            "host": "controller",
            "auth_strategy": "keystone",
            "api_paste_config": site.programs.package_file("etc/cinder/api-paste.ini"),
            "resource_query_filters_file": site.programs.package_file("etc/cinder/resource_filters.json"),
            "state_path": site.path("state"),
            "enabled_backends": ",".join(BACKENDS),
            "report_interval": 2,
            "service_down_time": 10,
            "periodic_interval": 2,
            "periodic_fuzzy_delay": 0,
            "backend_stats_polling_interval": 3,
            "osapi_volume_workers": 1,
            "allow_availability_zone_fallback": True,
            "scheduler_default_weighers": "CapacityWeigher",
            "default_volume_type": "fast",
        },
        "database": {"connection": site.databases["cinder"]},
        "oslo_messaging_notifications": {"driver": "messagingv2"},
        "oslo_concurrency": {"lock_path": site.path("locks")},
        "coordination": {"backend_url": f"file://{site.path('coordination')}"},
        "keystone_authtoken": token_check(site, "cinder"),
        "service_user": {**service, "send_service_user_token": True},
        "nova": service,
        "privsep": {"user": "", "group": ""},
        **backends,
    }
