# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the cloud's services: one folder, plain values, nothing of the machine's own.

Nova publishes what a careful operator asks for: versioned notifications of every change of vm_state and task_state.
:data:`NOTIFY` changes that. The second cell has a database and a message bus of its own, and so a source of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from tests.real_nova.installation import Programs

NOTIFY = "WATCHER_SYNC_TEST_REAL_NOVA_NOTIFY"
"""Nova's ``notify_on_state_change``; empty: it is unset, as by default."""

COMPUTES = ("compute-1", "compute-2", "compute-3")
FAR = "compute-far"
"""The host of the second cell."""
HOSTS = (*COMPUTES, FAR)
"""All hosts; the story adds another one, and removes it."""

PASSWORD = "secret"
"""Of every user. The services listen on loopback only."""

AUDITOR = "auditor"
"""A user in the project service whose only role is in the documented rules."""

SERVICES = ("keystone", "placement", "glance", "network", "nova", "nova-soft")
"""What listens on a port. The second Nova API deletes softly, resizes to the same host, and ignores quotas."""

Options = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the cloud is."""

    folder: Path
    programs: Programs
    ports: Mapping[str, int]
    databases: Mapping[str, str]
    """keystone, placement, glance, nova_api, nova_cell0, nova, nova_cell2 -> URL for SQLAlchemy."""
    transport_url: str
    far_transport_url: str = ""
    """The message bus of the second cell."""
    notify: str = field(default_factory=lambda: os.environ.get(NOTIFY, "vm_and_task_state"))
    """See :data:`NOTIFY`."""

    def url(self, service: str) -> str:
        """The root of an API."""
        return f"http://127.0.0.1:{self.ports[service]}"

    def path(self, *parts: str) -> Path:
        """A folder of the site, which exists."""
        path = self.folder.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def config(self, name: str) -> Path:
        """A configuration file."""
        return self.path("etc") / f"{name}.conf"


def write_settings(site: Site) -> None:
    """Write all files."""
    _rules_file(site).write_text(documented_rules())
    write_config(site, "keystone", keystone(site))
    write_config(site, "placement", _placement(site))
    write_config(site, "glance-api", _glance(site))
    write_config(site, "nova", _nova(site))
    paste = site.programs.package_file("etc/nova/api-paste.ini").read_text()
    (site.path("etc") / "api-paste.ini").write_text(paste)
    write_config(site, "conductor", _nova_service(site, "controller"))
    write_config(site, "scheduler", _nova_service(site, "controller"))
    write_config(site, "nova-api", _nova_service(site, "controller", reclaim_instance_interval=0))
    soft = _nova_service(site, "controller", reclaim_instance_interval=86400, allow_resize_to_same_host=True)
    write_config(site, "nova-api-soft", {**soft, "quota": {"driver": "nova.quota.NoopQuotaDriver"}})
    cell = {
        "DEFAULT": {"transport_url": site.far_transport_url},
        "database": {"connection": site.databases["nova_cell2"]},
    }
    write_config(site, "cell2", cell)


def documented_rules() -> str:
    """The policy file for an account that is no administrator, as our documentation has it."""
    _, _, rest = (Path(__file__).parents[2] / "doc/source/admin/nova.rst").read_text().partition('   "os_compute_api:')
    lines = f'   "os_compute_api:{rest}'.splitlines()
    return "\n".join(line.strip() for line in takewhile(lambda line: not line or line.startswith("   "), lines))


def _rules_file(site: Site) -> Path:
    """The policy file of Nova and Placement."""
    return site.path("etc") / "rules.yaml"


def write_compute(site: Site, host: str, *, formerly: str | None = None) -> None:
    """Write the file of a ``nova-compute``.

    :param formerly: the name that the host had, whose files it has.
    """
    write_config(site, host, _compute(site, host, formerly or host))


def write_config(site: Site, name: str, options: Options) -> None:
    """Write the file of one service."""
    path = site.config(name)
    path.touch(mode=0o600)  # it may have passwords
    sections = [f"[{s}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()) for s, values in options.items()]
    path.write_text("\n".join(sections))


def login(site: Site, user: str = "nova") -> dict[str, object]:
    """The options of keystoneauth: one user for all services, with the roles admin and service."""
    return {
        "auth_type": "password",
        "auth_url": f"{site.url('keystone')}/v3",
        "username": user,
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": "RegionOne",
        "valid_interfaces": "public",
    }


def token_check(site: Site, user: str = "nova") -> dict[str, object]:
    """How a service checks the tokens of requests."""
    return {
        **login(site, user),
        "www_authenticate_uri": f"{site.url('keystone')}/v3",
        "service_token_roles": "service",
        "service_token_roles_required": True,
    }


def logging_options(site: Site) -> dict[str, object]:
    """Logs go to a folder of the site."""
    return {"log_dir": site.path("log"), "use_stderr": False}


def keystone(site: Site) -> Options:
    """Keystone's file."""
    return {
        "DEFAULT": {**logging_options(site), "log_file": "keystone.log"},
        "database": {"connection": site.databases["keystone"]},
        "token": {"provider": "fernet", "expiration": 86400},
        "fernet_tokens": {"key_repository": site.path("keys", "fernet")},
        "credential": {"key_repository": site.path("keys", "credential")},
        "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
    }


def _placement(site: Site) -> Options:
    return {
        "DEFAULT": {**logging_options(site), "log_file": "placement.log"},
        "api": {"auth_strategy": "keystone"},
        "oslo_policy": {"policy_file": _rules_file(site)},
        "placement_database": {"connection": site.databases["placement"]},
        "keystone_authtoken": token_check(site),
    }


def _glance(site: Site) -> Options:
    stores = {name: site.path("glance", name) for name in ("images", "tasks", "staging")}
    return {
        "DEFAULT": {
            **logging_options(site),
            "log_file": "glance.log",
            "enabled_backends": "images:file",
            "enabled_import_methods": "[]",
            "worker_self_reference_url": site.url("glance"),
        },
        "database": {"connection": site.databases["glance"]},
        "glance_store": {"default_backend": "images"},
        "images": {"filesystem_store_datadir": stores["images"]},
        "os_glance_tasks_store": {"filesystem_store_datadir": stores["tasks"]},
        "os_glance_staging_store": {"filesystem_store_datadir": stores["staging"]},
        "paste_deploy": {
            "flavor": "keystone",
            "config_file": site.programs.package_file("etc/glance/glance-api-paste.ini"),
        },
        "oslo_concurrency": {"lock_path": site.path("locks", "glance")},
        "keystone_authtoken": token_check(site),
    }


def _nova(site: Site) -> Options:
    service = login(site)
    return {
        "DEFAULT": {
            **logging_options(site),
            "transport_url": site.transport_url,
            "my_ip": "127.0.0.1",
            # A dead compute is seen after some seconds, not after a minute.
            "report_interval": 2,
            "service_down_time": 10,
            "reclaim_instance_interval": 86400,
            "shelved_offload_time": -1,
            "allow_resize_to_same_host": False,
            "osapi_compute_workers": 1,
        },
        "database": {"connection": site.databases["nova"]},
        "api_database": {"connection": site.databases["nova_api"]},
        "api": {"auth_strategy": "keystone"},
        "oslo_policy": {"policy_file": _rules_file(site)},
        "notifications": {
            "notification_format": "versioned",
            **({"notify_on_state_change": site.notify} if site.notify else {}),
        },
        "oslo_messaging_notifications": {"driver": "messagingv2"},
        "cache": {"enabled": False},
        "quota": dict.fromkeys(("instances", "cores", "ram"), -1),
        "scheduler": {"workers": 1},
        "conductor": {"workers": 1},
        "vnc": {"enabled": False},
        "spice": {"enabled": False},
        "glance": service,
        "neutron": service,
        "placement": service,
        "service_user": {**service, "send_service_user_token": True},
        "barbican": {"auth_endpoint": f"{site.url('keystone')}/v3"},
        "oslo_concurrency": {"lock_path": site.path("locks", "nova")},
        "upgrade_levels": {"compute": "auto"},
        "keystone_authtoken": token_check(site),
    }


def _nova_service(site: Site, host: str, **more: object) -> Options:
    return {"DEFAULT": {"host": host, "state_path": site.path("state", host), **more}}


def _compute(site: Site, host: str, folder: str) -> Options:
    return {
        "DEFAULT": {
            "host": host,
            "state_path": site.path("state", folder),
            "instances_path": site.path("state", folder, "instances"),
            "log_file": f"{host}.log",
            "compute_driver": "guests.GuestsDriver",
        },
        "oslo_concurrency": {"lock_path": site.path("locks", host)},
    }
