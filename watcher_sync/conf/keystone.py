# SPDX-License-Identifier: Apache-2.0
"""``[keystone_authtoken]``: the options of keystonemiddleware, and those of the auth plugin that it uses.

keystonemiddleware registers the options of the plugin when the API starts. Every executable reads the same files, so
this module registers them earlier. The options of the plugin are in ``[keystone_authtoken]``, or in the section that
``auth_section`` names. The plugin is ``auth_type``, by default ``password``.

The libraries are imported only if the files have the section, or the API needs it.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator

from oslo_config import cfg

from watcher_sync.conf import files
from watcher_sync.exceptions import ConfigError

GROUP = "keystone_authtoken"

_DEFAULT_PLUGIN = "password"
_CONNECT_TIMEOUT_SECONDS = 10
_CONNECT_RETRIES = 1
_SERVICE_TYPE = "watcher-sync"
"""Of the API in Keystone's catalog. Without it, every application credential with access rules is refused."""

_PASSWORD_OPTIONS = (
    ("username", ("username", "user_id")),
    ("password", ("password",)),
    ("project_name", ("project_name", "project_id", "system_scope", "domain_name", "domain_id", "trust_id")),
)
"""What Keystone's password plugin needs beyond ``auth_url``: the name in the message, and the alternatives."""


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register all options of the section, after the files were read.

    :raises ConfigError: ``auth_type`` or ``auth_section`` names nothing that exists.
    """
    for group, options in list_opts(conf):
        conf.register_opts(options, group=group)


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the files have the section."""
    return GROUP in conf.list_all_sections()


def list_opts(conf: cfg.ConfigOpts) -> list[tuple[str, list[cfg.Opt]]]:
    """The options of the section, and of the plugin: (section, options).

    :raises ConfigError: see :func:`register_opts`.
    """
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading
    from keystonemiddleware import auth_token

    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    conf.set_default("http_connect_timeout", _CONNECT_TIMEOUT_SECONDS, group=GROUP)
    conf.set_default("http_request_max_retries", _CONNECT_RETRIES, group=GROUP)
    conf.set_default("service_type", _SERVICE_TYPE, group=GROUP)
    section = plugin_section(conf)
    loading.register_auth_conf_options(conf, section)
    if is_configured(conf):
        conf.set_default("auth_type", _DEFAULT_PLUGIN, group=section)
    plugin: str = conf[section].auth_type or _DEFAULT_PLUGIN
    try:
        plugin_options = loading.get_auth_plugin_conf_options(plugin)
    except exceptions.NoMatchingPlugin:
        known = ", ".join(sorted(loading.get_available_plugin_names()))
        raise ConfigError(f"[{section}] auth_type = {plugin}: there is no such plugin; there are {known}") from None
    return [
        *auth_token.list_opts(),
        (section, [*loading.get_auth_common_conf_options(), *plugin_options]),
    ]


def require_complete(conf: cfg.ConfigOpts) -> None:
    """Require that the API can ask Keystone about tokens. It contacts nothing.

    :raises ConfigError: options are missing; the message names them.
    """
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading

    register_opts(conf)
    section = plugin_section(conf)
    plugin: str = conf[section].auth_type or _DEFAULT_PLUGIN
    missing = list(_missing(conf, section)) if plugin in ("password", "v3password") else []
    if not missing:
        try:
            loading.load_auth_from_conf_options(conf, GROUP)
        except exceptions.MissingRequiredOptions as exc:
            missing = [option.dest for option in exc.options]
        except exceptions.OptionError as exc:
            raise ConfigError(f"[{section}] {exc}") from None
    if missing:
        raise ConfigError(
            f"[{section}] {', '.join(missing)}: not set; [api] auth_strategy = keystone needs these options"
        )
    group = conf[GROUP]
    files.check_tls(
        GROUP, ("cafile", group.cafile), ("certfile", group.certfile), ("keyfile", group.keyfile), allow_folder=True
    )
    _require_cache(conf)


def plugin_section(conf: cfg.ConfigOpts) -> str:
    """The section with the options of the plugin.

    :raises ConfigError: ``auth_section`` names a section that no file has.
    """
    section: str | None = conf[GROUP].auth_section
    if section and section not in conf.list_all_sections():
        raise ConfigError(f"[{GROUP}] auth_section = {section}: there is no such section")
    return section or GROUP


def _missing(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    group = conf[section]
    if not group.auth_url:
        yield "auth_url"
    for name, alternatives in _PASSWORD_OPTIONS:
        if not any(group[option] for option in alternatives):
            yield name
    for what in ("user", "project"):
        by_name = group["username" if what == "user" else "project_name"]
        domain = [f"{what}_domain_name", f"{what}_domain_id", "default_domain_name", "default_domain_id"]
        if by_name and not group[f"{what}_id"] and not any(group[option] for option in domain):
            yield domain[0]


def _require_cache(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: the cache of tokens lacks a package or an option."""
    group = conf[GROUP]
    if group.memcache_security_strategy.lower() != "none" and not group.memcache_secret_key:
        raise ConfigError(f"[{GROUP}] memcache_secret_key: memcache_security_strategy needs it")
    if group.memcached_servers:
        binary = group.memcache_tls_enabled or group.memcache_sasl_enabled
        module, package = ("bmemcached", "python-binary-memcached") if binary else ("memcache", "python-memcached")
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f"[{GROUP}] memcached_servers: needs the package {package}")
    if group.memcache_tls_enabled:
        names = ("memcache_tls_cafile", "memcache_tls_certfile", "memcache_tls_keyfile")
        files.check_tls(GROUP, *((name, group[name]) for name in names))


def listers(conf: cfg.ConfigOpts) -> Iterator[Callable[[], list[tuple[str, list[cfg.Opt]]]]]:
    """Functions that list the options, for the check of the files; none if no file has the section."""
    if is_configured(conf):
        yield functools.partial(list_opts, conf)
