# SPDX-License-Identifier: Apache-2.0
"""The account that a section names, as a session of keystoneauth, and the region that it asks.

openstacksdk is imported when an account is made: the import is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.accounts import lack_of
from watcher_sync.conf import cloud_account, files
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.cloud.errors import shown

_APP_NAME: Final = "watcher-sync"
"""The name in the ``User-Agent`` of the requests."""

_TOKENS: Final = "/auth/tokens"
"""The path of tokens below Keystone's address."""


class CloudAccount(msgspec.Struct, frozen=True):
    """An authenticated session, and the place of each service in the catalogue."""

    session: Any
    where: Callable[[str], Mapping[str, Any]]
    """Service -> the arguments of an adapter that find its endpoint."""


def make_account(conf: cfg.ConfigOpts, name: str) -> CloudAccount:
    """:raises ConfigError: the options name no usable account."""
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading
    from openstack import exceptions as sdk_exceptions
    from openstack.config import OpenStackConfig

    from watcher_sync.extensions.openstack.cloud.transport import limit_answers

    group = conf[name]
    try:
        if group.cloud:
            region = {"region_name": group.region_name} if group.region_name else {}
            config = OpenStackConfig(load_envvars=False, app_name=_APP_NAME)
            try:
                cloud = config.get_one(cloud=group.cloud, api_timeout=group.timeout, **region)
            except TypeError as exc:  # of the constructor of auth_type
                raise ConfigError(f"[{name}] cloud: {group.cloud} has an option that is not known: {exc}") from None
            if lack := lack_of(cloud):
                raise ConfigError(f"[{name}] {lack}")
            session = cloud.get_session()
            _check_session(session, name)
            limit_answers(session)
            return CloudAccount(
                session=session,
                where=lambda service: {
                    "service_type": cloud.get_service_type(service),
                    "service_name": cloud.get_service_name(service),
                    "interface": cloud.get_interface(service),
                    "region_name": cloud.get_region_name(service),
                    "endpoint_override": cloud.get_endpoint(service),
                },
            )
        auth = loading.load_auth_from_conf_options(conf, name)
        cloud_account.require_options(conf, name)
        session = loading.load_session_from_conf_options(conf, name, auth=auth, app_name=_APP_NAME)
        _check_session(session, name)
        limit_answers(session)
        where = {"interface": group.valid_interfaces, "region_name": group.region_name}
        return CloudAccount(session=session, where=lambda service: {"service_type": service, **where})
    except exceptions.MissingRequiredOptions as exc:
        missing = ", ".join(option.dest for option in exc.options)
        raise ConfigError(f"[{name}] {missing}: not set; auth_type needs these options") from None
    except (exceptions.ClientException, sdk_exceptions.SDKException) as exc:
        raise ConfigError(f"[{name}] {shown(str(exc))}") from None


def _check_session(session: Any, name: str) -> None:
    """:raises ConfigError: the library could not send a request, or not to Keystone."""
    if (getattr(session.auth, "auth_url", None) or "").rstrip("/").endswith(_TOKENS):
        raise ConfigError(f"[{name}] auth_url: it ends with {_TOKENS}; it is to be Keystone's, which ends with /v3")
    certificate, key = (session.cert, None) if isinstance(session.cert, str) else session.cert or (None, None)
    authorities = session.verify if isinstance(session.verify, str) else None
    files.check_tls(name, ("cafile", authorities), ("certfile", certificate), ("keyfile", key), allow_folder=True)


def settle_region(adapter: Any, section: str) -> str:
    """Have an adapter ask one region, whatever the order of the catalogue, which differs from token to token.

    :param adapter: of keystoneauth. It may ask Keystone for a token.
    :returns: why there is not exactly one region; empty if there is.
    """
    get_access = getattr(adapter.session.auth, "get_access", None)
    if adapter.endpoint_override or get_access is None:  # the configuration names the endpoint
        return ""
    catalog = get_access(adapter.session).service_catalog
    wanted = [adapter.interface] if isinstance(adapter.interface, str) else list(adapter.interface or ["public"])
    regions = {
        each.region_name for one in wanted for each in _endpoints(catalog, adapter, one, adapter.region_name or None)
    }
    if len(regions) == 1:
        adapter.region_name = regions.pop()
        return ""
    if regions:
        names = ", ".join(sorted(str(one or "none") for one in regions))
        return f"the catalogue has it in the regions {names}: set [{section}] region_name"
    missing = f"the catalogue has no endpoint of it for {', '.join(wanted)}"
    if adapter.region_name:
        missing += f" in the region {adapter.region_name}"
    known: dict[str, set[str]] = {}
    for each in _endpoints(catalog, adapter, None, None):
        known.setdefault(str(each.region_name), set()).add(str(each.interface))
    has = ", ".join(f"{region} ({', '.join(sorted(found))})" for region, found in sorted(known.items()))
    return f"{missing}; it has {has or 'none'}"


def _endpoints(catalog: Any, adapter: Any, interface: str | None, region: str | None) -> list[Any]:
    """Return the endpoints of an adapter's service, of this interface and region; None: of all."""
    named = {"service_type": adapter.service_type, "service_name": adapter.service_name}
    try:
        found: list[Any] = catalog.get_endpoint_data_list(**named, interface=interface, region_name=region)
    except ValueError:  # of the library, if several types of the service have no such endpoint
        return []
    return found
