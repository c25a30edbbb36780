# SPDX-License-Identifier: Apache-2.0
"""The account that a section names, as a session of keystoneauth. Nothing is contacted.

openstacksdk is imported when an account is made: the import is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.accounts import lack_of
from watcher_sync.conf import cloud_account
from watcher_sync.exceptions import ConfigError
from watcher_sync.reconcile.openstack_errors import shown

_APP_NAME: Final = "watcher-sync"
"""The name in the ``User-Agent`` of the requests."""


class Account(msgspec.Struct, frozen=True):
    """An authenticated session, and the place of each service in the catalogue."""

    session: Any
    where: Callable[[str], Mapping[str, Any]]
    """Service -> the arguments of an adapter that find its endpoint."""


def make_account(conf: cfg.ConfigOpts, name: str) -> Account:
    """:raises ConfigError: the options name no usable account."""
    # Imported here: see the module.
    from keystoneauth1 import exceptions, loading
    from openstack import exceptions as sdk_exceptions
    from openstack.config import OpenStackConfig

    from watcher_sync.reconcile.openstack_transport import limit_answers

    group = conf[name]
    try:
        if group.cloud:
            region = {"region_name": group.region_name} if group.region_name else {}
            config = OpenStackConfig(load_envvars=False, app_name=_APP_NAME)
            cloud = config.get_one(cloud=group.cloud, api_timeout=group.timeout, **region)
            if lack := lack_of(cloud):
                raise ConfigError(f"[{name}] {lack}")
            session = cloud.get_session()
            limit_answers(session)
            return Account(
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
        limit_answers(session)
        where = {"interface": group.valid_interfaces, "region_name": group.region_name}
        return Account(session=session, where=lambda service: {"service_type": service, **where})
    except exceptions.MissingRequiredOptions as exc:
        missing = ", ".join(option.dest for option in exc.options)
        raise ConfigError(f"[{name}] {missing}: not set; auth_type needs these options") from None
    except (exceptions.ClientException, sdk_exceptions.SDKException) as exc:
        raise ConfigError(f"[{name}] {shown(str(exc))}") from None
