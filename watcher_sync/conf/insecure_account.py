# SPDX-License-Identifier: Apache-2.0
"""Finds what an account of Keystone sends without TLS, or to services that are not verified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oslo_config import cfg

from watcher_sync.conf.findings import is_remote_http, place
from watcher_sync.conf.private import read_privately

_URLS: Final = re.compile(r"url$|endpoint$|_endpoint_override$")
"""The names of options of an account, to whose URLs its password or its tokens go."""
_PLAIN: Final = "passwords and tokens cross the network without TLS; use an https URL."
_UNVERIFIED: Final = (
    "the certificates of Keystone and its services are not verified; remove the option, and set cafile."
)


def find_insecure_account(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    """Findings about the account that a section names; none if it names none."""
    # Imported here: most configurations have no account.
    from keystoneauth1 import exceptions, loading

    names = [cfg.StrOpt(name) for name in ("cloud", "auth_type", "auth_section")]
    private = read_privately(conf)
    private.register_opts([*names, cfg.BoolOpt("insecure", default=False)], group=section)
    if cloud := private[section].cloud:
        for finding in _insecure_cloud(cloud):
            yield f"{place(private, 'cloud', section)}: {finding}"
        return
    if private[section].insecure:
        yield f"{place(private, 'insecure', section)}: {_UNVERIFIED}"
    section = private[section].auth_section or section
    private.register_opts(names, group=section)
    auth_type = private[section].auth_type
    if auth_type == "none":
        return  # it sends no credentials
    try:
        options = loading.get_auth_plugin_conf_options(auth_type or "password")
    except exceptions.NoMatchingPlugin:
        return  # the process does not start
    found = [option for option in options if _URLS.search(option.dest)]
    # Without "required": what is missing is not insecure, and other checks report it.
    optional = [cfg.StrOpt(each.name, dest=each.dest, deprecated_opts=each.deprecated_opts) for each in found]
    private.register_opts(optional, group=section)
    for option in optional:
        url = private[section][option.dest]
        if url and is_remote_http(url):
            yield f"{place(private, option.dest, section)}: {_PLAIN}"


def _insecure_cloud(cloud: str) -> Iterator[str]:
    """Findings about a cloud of clouds.yaml; none if the library cannot read it, which other checks report."""
    # Imported here: the import is slow.
    from openstack import exceptions
    from openstack.config import OpenStackConfig

    try:
        found = OpenStackConfig(load_envvars=False).get_one(cloud=cloud)
    except (exceptions.SDKException, TypeError):
        return
    if found.get_requests_verify_args()[0] is False:
        yield f"verify of {cloud} in clouds.yaml: {_UNVERIFIED}"
    for name, url in sorted({**found.config, **found.config["auth"]}.items()):
        if _URLS.search(name) and isinstance(url, str) and is_remote_http(url):
            yield f"{name} of {cloud} in clouds.yaml: {_PLAIN}"
