# SPDX-License-Identifier: Apache-2.0
"""The account with which a reconciler asks a cloud, in the reconciler's own section.

It is either a cloud of ``clouds.yaml`` (``cloud``), or the options of a keystoneauth plugin (``auth_type`` and so
on). The plugin's options are in the same section, or in the section that ``auth_section`` names.

keystoneauth is imported only if the files name an account.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError

_SAMPLE_PLUGIN = "password"
_NEEDED = ("endpoint", "password", "token")
"""Options without which a plugin that has them fails."""
_REQUEST_TIMEOUT_SECONDS = 60
"""The default of keystoneauth's ``timeout``: seconds without an answer of one request."""

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "cloud",
        help="""
The name of a cloud in ``clouds.yaml``, which openstacksdk reads from the working directory, in
``~/.config/openstack`` and in ``/etc/openstack``.

Unset: the options ``auth_type``, ``auth_url`` and so on of this section name the account.

Related options: ``auth_type``.
""",
    ),
    cfg.StrOpt(
        "region_name",
        help="""
The region whose services are asked.

Unset: the region of ``cloud``, or the only one in the catalogue. A run fails if the catalogue has the service in
several regions, because its order changes from token to token.
""",
    ),
    cfg.ListOpt(
        "valid_interfaces",
        default=["internal", "public"],
        help="""
The interfaces of the catalogue's endpoints, in the order of preference. Not used with ``cloud``, which names its own.
""",
    ),
]


def register_auth_opts(conf: cfg.ConfigOpts, group: str) -> None:
    """Register the options of keystoneauth, after the files were read.

    :param group: the section of the reconciler.
    :raises ConfigError: ``auth_type`` or ``auth_section`` names nothing that exists.
    """
    for section, options in list_auth_opts(conf, group):
        conf.register_opts(options, group=section)


def list_auth_opts(conf: cfg.ConfigOpts, group: str) -> list[tuple[str, list[cfg.Opt]]]:
    """The options of keystoneauth's session and of the configured plugin: (section, options).

    :raises ConfigError: see :func:`register_auth_opts`.
    """
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading

    conf.register_opts(_session_opts(loading), group=group)
    section = _plugin_section(conf, group, loading)
    plugin: str | None = conf[section].auth_type
    plugin_options: list[cfg.Opt] = []
    if plugin:
        # By name: the library logs what it cannot load.
        known = importlib.metadata.entry_points(group=loading.PLUGIN_NAMESPACE).names
        if plugin not in known:
            listed = ", ".join(sorted(known))
            raise ConfigError(f"[{section}] auth_type = {plugin}: there is no such plugin; there are {listed}")
        try:
            plugin_options = loading.get_auth_plugin_conf_options(plugin)
        except exceptions.NoMatchingPlugin:
            raise ConfigError(f"[{section}] auth_type = {plugin}: the plugin cannot be loaded") from None
    common = loading.get_auth_common_conf_options()
    return [(group, [*_session_opts(loading), *common]), (section, [*common, *plugin_options])]


def sample_opts(group: str) -> list[tuple[str, list[cfg.Opt]]]:
    """The options of keystoneauth for the sample configuration, with those of the plugin ``password``."""
    from keystoneauth1 import loading

    plugin_options = loading.get_auth_plugin_conf_options(_SAMPLE_PLUGIN)
    return [(group, [*_session_opts(loading), *loading.get_auth_common_conf_options(), *plugin_options])]


def listers(conf: cfg.ConfigOpts, sections: Iterable[str]) -> Iterator[Callable[[], list[tuple[str, list[cfg.Opt]]]]]:
    """Functions that list keystoneauth's options in sections with an account, for the check of the files."""
    for section in sections:
        yield functools.partial(list_auth_opts, conf, section)


def has_account(options: Container[str]) -> bool:
    """Whether a section with these options has an account."""
    return all(option.dest in options for option in OPTS)


def require_account(conf: cfg.ConfigOpts, group: str) -> None:
    """Require that the options name exactly one account.

    :raises ConfigError: they name none, or two.
    """
    cloud = conf[group].cloud
    if bool(cloud) == bool(plugin_of(conf, group)):
        wrong = "are both set" if cloud else "are not set"
        raise ConfigError(f"[{group}] cloud, auth_type: {wrong}; one of them names the account")


def require_options(conf: cfg.ConfigOpts, group: str) -> None:
    """Require what the library calls optional, and its plugin needs at the first request.

    :raises ConfigError: naming an option that is not set.
    """
    section = conf[group].auth_section or group
    for name in _NEEDED:
        if name in conf[section] and not conf[section][name]:
            raise ConfigError(f"[{section}] {name}: not set; auth_type = {conf[section].auth_type} needs it")


def plugin_of(conf: cfg.ConfigOpts, group: str) -> str | None:
    """The name of the configured plugin; None if ``auth_type`` is not set."""
    from keystoneauth1 import loading

    plugin: str | None = conf[_plugin_section(conf, group, loading)].auth_type
    return plugin


def _session_opts(loading: Any) -> list[cfg.Opt]:
    options: list[cfg.Opt] = loading.get_session_conf_options()
    for option in options:
        if option.dest == "timeout":
            option.default = _REQUEST_TIMEOUT_SECONDS
    return options


def _plugin_section(conf: cfg.ConfigOpts, group: str, loading: Any) -> str:
    """The section with the options of the plugin.

    :raises ConfigError: ``auth_section`` names a section that no file has.
    """
    loading.register_auth_conf_options(conf, group)
    section: str | None = conf[group].auth_section
    if not section:
        return group
    if section not in conf.list_all_sections():
        raise ConfigError(f"[{group}] auth_section = {section}: there is no such section")
    loading.register_auth_conf_options(conf, section)
    return section
