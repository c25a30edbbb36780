# SPDX-License-Identifier: Apache-2.0
"""``[reconcile_nova]``: the cloud that the reconciler ``nova`` asks, and the options of keystoneauth.

The account is either a cloud of ``clouds.yaml`` (``cloud``), or the options of a keystoneauth plugin (``auth_type``,
``auth_url`` and so on). The plugin's options are in this section, or in the section that ``auth_section`` names.

keystoneauth is imported only if the files have the section.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError

GROUP = "reconcile_nova"

_SAMPLE_PLUGIN = "password"
_REQUEST_TIMEOUT_SECONDS = 60
"""The default of keystoneauth's ``timeout``: seconds without an answer of one request."""

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="""
Whether the model is compared with Nova's API.

Notifications report only changes. The comparison finds what existed before, what notifications lost, and facts that
Nova never publishes. While it has never been complete, ``/readyz`` of the engine reports an incomplete inventory.

Related options: ``cloud``, ``auth_type``, ``[reconcile] enabled``.
""",
    ),
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
The region whose Nova and Placement are asked.

Unset: the region of ``cloud``, or the first one in the catalogue.
""",
    ),
    cfg.ListOpt(
        "valid_interfaces",
        default=["internal", "public"],
        help="""
The interfaces of the catalogue's endpoints, in the order of preference. Not used with ``cloud``, which names its own.
""",
    ),
    cfg.FloatOpt(
        "interval",
        default=3600,
        min=1,
        mutable=True,
        help="""
Seconds between two complete comparisons.

``[reconcile] jitter`` applies to it. A SIGHUP applies a new value at once.

Related options: ``changes_interval``.
""",
    ),
    cfg.FloatOpt(
        "changes_interval",
        default=300,
        min=1,
        mutable=True,
        help="""
Seconds between two comparisons of the servers that changed since the last one (``changes-since``).

Such a comparison needs one request where nothing changed. It does not compare hosts and aggregates. A SIGHUP applies
a new value at once.

Related options: ``interval``.
""",
    ),
    cfg.FloatOpt(
        "run_timeout",
        default=600,
        min=1,
        mutable=True,
        help="""
Seconds after which a comparison counts as failed. It takes the place of ``[reconcile] timeout``.
""",
    ),
    cfg.ListOpt(
        "ignore_projects",
        default=[],
        help="""
Ids of projects whose servers are not compared. The comparison neither writes nor deletes them.
""",
    ),
    cfg.ListOpt(
        "ignore_zones",
        default=[],
        help="""
Availability zones whose hosts are not compared, nor the servers on them.
""",
    ),
    cfg.ListOpt(
        "ignore_aggregates",
        default=[],
        help="""
Names of host aggregates whose hosts are not compared, nor the servers on them. The aggregates themselves are not
compared either.
""",
    ),
    cfg.BoolOpt(
        "ignore_ironic",
        default=True,
        help="""
Whether bare metal is left out: hypervisors of the type ironic, their hosts, and the servers on them.

One compute service of ironic has many hypervisors, so its capacity is not that of one host.
""",
    ),
]


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the files have the section."""
    return GROUP in conf.list_all_sections()


def register_auth_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of keystoneauth, after the files were read.

    :raises ConfigError: ``auth_type`` or ``auth_section`` names nothing that exists.
    """
    for group, options in list_auth_opts(conf):
        conf.register_opts(options, group=group)


def list_auth_opts(conf: cfg.ConfigOpts) -> list[tuple[str, list[cfg.Opt]]]:
    """The options of keystoneauth's session and of the configured plugin: (section, options).

    :raises ConfigError: see :func:`register_auth_opts`.
    """
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading

    conf.register_opts(_session_opts(loading), group=GROUP)
    section = _plugin_section(conf, loading)
    plugin: str | None = conf[section].auth_type
    plugin_options: list[cfg.Opt] = []
    if plugin:
        try:
            plugin_options = loading.get_auth_plugin_conf_options(plugin)
        except exceptions.NoMatchingPlugin:
            known = ", ".join(sorted(loading.get_available_plugin_names()))
            raise ConfigError(f"[{section}] auth_type = {plugin}: there is no such plugin; there are {known}") from None
    common = loading.get_auth_common_conf_options()
    return [(GROUP, [*_session_opts(loading), *common]), (section, [*common, *plugin_options])]


def sample_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """The options of keystoneauth for the sample configuration, with those of the plugin ``password``."""
    from keystoneauth1 import loading

    plugin_options = loading.get_auth_plugin_conf_options(_SAMPLE_PLUGIN)
    return [(GROUP, [*_session_opts(loading), *loading.get_auth_common_conf_options(), *plugin_options])]


def listers(conf: cfg.ConfigOpts) -> Iterator[Callable[[], list[tuple[str, list[cfg.Opt]]]]]:
    """Functions that list keystoneauth's options, for the check of the files; none without the section."""
    if is_configured(conf):
        yield functools.partial(list_auth_opts, conf)


def require_account(conf: cfg.ConfigOpts) -> None:
    """Require that the options name exactly one account.

    :raises ConfigError: they name none, or two.
    """
    group = conf[GROUP]
    if bool(group.cloud) == bool(plugin_of(conf)):
        wrong = "are both set" if group.cloud else "are not set"
        raise ConfigError(f"[{GROUP}] cloud, auth_type: {wrong}; one of them names the account")


def plugin_of(conf: cfg.ConfigOpts) -> str | None:
    """The name of the configured plugin; None if ``auth_type`` is not set."""
    from keystoneauth1 import loading

    plugin: str | None = conf[_plugin_section(conf, loading)].auth_type
    return plugin


def _session_opts(loading: Any) -> list[cfg.Opt]:
    options: list[cfg.Opt] = loading.get_session_conf_options()
    for option in options:
        if option.dest == "timeout":
            option.default = _REQUEST_TIMEOUT_SECONDS
    return options


def _plugin_section(conf: cfg.ConfigOpts, loading: Any) -> str:
    """The section with the options of the plugin.

    :raises ConfigError: ``auth_section`` names a section that no file has.
    """
    loading.register_auth_conf_options(conf, GROUP)
    section: str | None = conf[GROUP].auth_section
    if not section:
        return GROUP
    if section not in conf.list_all_sections():
        raise ConfigError(f"[{GROUP}] auth_section = {section}: there is no such section")
    loading.register_auth_conf_options(conf, section)
    return section
