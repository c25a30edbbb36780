# SPDX-License-Identifier: Apache-2.0
"""The options of the driver ``federation``, those of all drivers that follow a region, and the settings they give."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.conf import files
from watcher_sync.exceptions import ConfigError

_SITE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")

DRIVERS: Final = ("federation", "federation_log")
"""Those that follow a region."""

SITE_OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "site",
        help="""
Name of the region in this model: the ids of its entities begin with ``<site>:``. Default: the name of the source.

1 to 32 letters, digits, hyphens and underscores. Another name makes other entities: those of the old name stay until
they are deleted by hand.
""",
    ),
    cfg.ListOpt(
        "projects",
        default=["*"],
        help="""
Ids of the projects to which entities of this region may belong. By default, ``*``, the region may name any project.

An entity of another project is followed without its project: administrators see it, and no project does. So the region
shows nothing to the members of a project that has no business there. Set the option before the source first runs: what
was followed before does not change.
""",
    ),
]
"""Of all drivers that follow a region."""

OPTIONS: list[cfg.Opt] = [
    *SITE_OPTIONS,
    cfg.StrOpt(
        "endpoint",
        help="Root of the region's REST API, such as ``https://sync.region-one.example.com``. Required.",
    ),
    cfg.StrOpt(
        "address",
        help="""
Host, or host:port, of the region's watch stream. Default: the host of ``endpoint``, and port 8776.
""",
    ),
    cfg.BoolOpt("stream_tls", advanced=True, help="Whether the watch stream uses TLS. Default: if ``endpoint`` does."),
    cfg.StrOpt(
        "topic",
        default="federation",
        advanced=True,
        help="""
The watch topic of the region that the source subscribes to. The source creates it if there is none, with one filter
for everything. The events of the topic wake the source, which then reads all that changed. What a topic leaves out is
read with the next event, or after five seconds. So is everything if there is no topic, and the account may create none.
""",
    ),
    cfg.StrOpt("cafile", help="File with the authorities that sign the region's certificates. Default: the system's."),
    cfg.StrOpt("certfile", advanced=True, help="File with our client certificate, for mutual TLS."),
    cfg.StrOpt("keyfile", advanced=True, help="File with the key of ``certfile``."),
    cfg.StrOpt(
        "auth_url",
        help="""
URL of the region's Keystone. Without it, the source sends no token, for a region with ``auth_strategy = noauth``.

The account has to see all projects and the fields that tell of hosts: a reader of the system, or an administrator.
""",
    ),
    cfg.StrOpt("username", help="User of the account."),
    cfg.StrOpt("password", secret=True, help="Password of the user."),
    cfg.StrOpt("user_domain_name", default="Default", advanced=True, help="Domain of the user."),
    cfg.StrOpt("project_name", help="Project of the account. Without it, the token is for the whole system."),
    cfg.StrOpt("project_domain_name", default="Default", advanced=True, help="Domain of the project."),
    cfg.StrOpt("application_credential_id", help="Application credential, instead of a user."),
    cfg.StrOpt("application_credential_secret", secret=True, help="Secret of the application credential."),
    cfg.FloatOpt(
        "timeout", default=30.0, min=1.0, advanced=True, help="Seconds that an answer of the REST API may take."
    ),
    cfg.IntOpt("page_size", default=500, min=1, max=10_000, advanced=True, help="Entities on one page of a listing."),
    cfg.FloatOpt(
        "backoff_max",
        default=30.0,
        min=0.1,
        advanced=True,
        help="Seconds between two attempts to reach the region, at most. They begin with 0.2 and double.",
    ),
]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """How one source names what it follows."""

    source: str
    site: str
    projects: tuple[str, ...] | None = None
    """To which entities of the region may belong; None: any."""


class RegionSettings(Site, frozen=True, kw_only=True):
    """The checked options of one source of the driver ``federation``."""

    endpoint: str
    address: str | None
    stream_tls: bool | None
    topic: str
    timeout: float
    page_size: int
    backoff_max: float


def read_site(name: str, group: Any) -> Site:
    """How a source names its region.

    :param name: of the source.
    :param group: its options.
    :raises ConfigError: naming the option that is wrong.
    """
    site = group.site or name
    if not _SITE.fullmatch(site):
        raise ConfigError(f"[source_{name}] site: {site!r} is not 1 to 32 letters, digits, hyphens and underscores")
    return Site(source=name, site=site, projects=None if "*" in group.projects else tuple(group.projects))


def read_settings(name: str, group: Any) -> RegionSettings:
    """The settings of a source.

    :param name: of the source.
    :param group: its options.
    :raises ConfigError: naming the option that is wrong.
    """
    section = f"[source_{name}]"
    site = read_site(name, group)
    if not group.endpoint:
        raise ConfigError(f"{section} endpoint: not set; it is the root of the region's REST API")
    url = urllib.parse.urlsplit(group.endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"{section} endpoint: no URL with http or https, and a host")
    if group.keyfile and not group.certfile:
        raise ConfigError(f"{section} certfile: not set, but keyfile is")
    files.check_tls(
        f"source_{name}", ("cafile", group.cafile), ("certfile", group.certfile), ("keyfile", group.keyfile)
    )
    _require_account(section, group)
    return RegionSettings(
        **msgspec.structs.asdict(site),
        endpoint=group.endpoint,
        address=group.address,
        stream_tls=group.stream_tls,
        topic=group.topic,
        timeout=group.timeout,
        page_size=group.page_size,
        backoff_max=group.backoff_max,
    )


def _require_account(section: str, group: Any) -> None:
    """:raises ConfigError: the options name no account, or half of one."""
    needed = ("username", "password")
    if group.application_credential_id or group.application_credential_secret:
        needed = ("application_credential_id", "application_credential_secret")
    if group.auth_url:
        missing = [option for option in needed if not group[option]]
        if missing:
            raise ConfigError(f"{section} {', '.join(missing)}: not set, but auth_url is")
    elif any(group[option] for option in needed):
        raise ConfigError(f"{section} auth_url: not set, but {needed[0]} or {needed[1]} is")
