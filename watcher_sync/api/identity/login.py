# SPDX-License-Identifier: Apache-2.0
"""Gets a token from Keystone with the name and the password of a user.

The request goes to the address that the API itself uses, with the TLS options of ``[keystone_authtoken]``. It follows
no redirect, so that only this address receives the password. It is not repeated, and each of its steps takes at most
:data:`TIMEOUT_SECONDS`. The body of the request is not logged.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import keystone as options
from watcher_sync.decoding import UNDECODABLE

if TYPE_CHECKING:
    from keystoneauth1.session import Session

LOG = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 5
"""For the connection, and for the answer of Keystone."""

MAX_PROJECTS: Final = 10_000
"""Names of projects that a login gives."""

_REFUSALS: Final = frozenset({400, 401, 403})
"""Statuses with which Keystone refuses names, a password or a scope."""


class LoginRefused(Exception):
    """Keystone gives no token for the name, the password and the scope."""


class KeystoneFailed(Exception):
    """Keystone is unavailable, or its answer is no token."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a user enters. Its representation has no password."""

    user: str
    password: str
    user_domain: str
    project: str | None
    """None: the scope is the system."""
    project_domain: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


class Login(msgspec.Struct, frozen=True):
    """A token, and what it is for. Its representation has no token."""

    token: str
    expires_at: datetime.datetime
    user_id: str
    user: str | None
    project_id: str | None
    project: str | None
    roles: list[str]
    projects: Mapping[str, str]
    """Id -> name of the projects that Keystone lists for the user; empty: it lists none."""

    def __repr__(self) -> str:
        return f"Login(user_id={self.user_id!r})"


class _Project(msgspec.Struct):
    id: str
    name: str


class _Projects(msgspec.Struct):
    projects: list[_Project]


class KeystoneAddress(msgspec.Struct, frozen=True):
    """Where Keystone is, and how TLS proves it."""

    url: str
    verify: bool | str = True
    certificate: tuple[str, str] | str | None = None

    def log_in(self, credentials: Credentials) -> Login:
        """Gets a token.

        :raises LoginRefused: the user, the password or the scope is wrong.
        :raises KeystoneFailed: Keystone is unavailable.
        """
        # Imported here: the import is slow, and an API without Keystone does not need it.
        from keystoneauth1 import exceptions, session
        from keystoneauth1.identity import v3

        is_system = credentials.project is None
        plugin = v3.Password(
            self.url,
            username=credentials.user,
            password=credentials.password,
            user_domain_name=credentials.user_domain,
            project_name=credentials.project,
            project_domain_name=None if is_system else credentials.project_domain,
            system_scope="all" if is_system else None,
            reauthenticate=False,
            include_catalog=False,
        )
        client = session.Session(
            verify=self.verify, cert=self.certificate, timeout=TIMEOUT_SECONDS, redirect=False, app_name="watcher-sync"
        )
        try:
            found = plugin.get_auth_ref(client)
            if not (found.expires and found.auth_token and found.user_id):
                raise ValueError
            return Login(
                token=found.auth_token,
                expires_at=found.expires,
                user_id=found.user_id,
                user=found.username,
                project_id=found.project_id,
                project=found.project_name,
                roles=list(found.role_names or ()),
                projects=self._projects(client, found.auth_token),
            )
        except exceptions.HttpError as exc:
            if exc.http_status in _REFUSALS:
                raise LoginRefused from None
            raise _failed(exc) from None
        except exceptions.MissingAuthMethods:
            raise LoginRefused from None  # a user with several factors
        except (exceptions.ClientException, LookupError, TypeError, ValueError) as exc:
            raise _failed(exc) from None
        finally:
            client.session.close()

    def _projects(self, client: Session, token: str) -> dict[str, str]:
        """The projects that a token may list: all of them, else those in which its user has a role.

        A login does not fail for the lack of them.
        """
        from keystoneauth1 import exceptions

        base = self.url.rstrip("/").removesuffix("/v3")
        for path in ("/v3/projects", "/v3/auth/projects"):
            try:
                answer = client.get(base + path, headers={"X-Auth-Token": token}, authenticated=False, log=False)
                listed = msgspec.json.decode(answer.content, type=_Projects).projects
            except exceptions.HttpError:
                continue  # only administrators list all
            except (exceptions.ClientException, *UNDECODABLE) as exc:
                LOG.warning("Keystone lists no projects: %s", type(exc).__name__)
                break
            return {project.id: project.name for project in listed[:MAX_PROJECTS]}
        return {}


def address_of(conf: cfg.ConfigOpts) -> KeystoneAddress | None:
    """The address of Keystone for logins; None: the configuration offers none.

    :raises ConfigError: a value of ``[keystone_authtoken]`` is unusable.
    """
    if conf.api.auth_strategy != "keystone" or not conf.api.page_login:
        return None
    options.register_opts(conf)
    group = conf[options.GROUP]
    url = getattr(conf[options.plugin_section(conf)], "auth_url", None) or group.www_authenticate_uri
    if not url:
        return None
    certificate = (group.certfile, group.keyfile) if group.certfile and group.keyfile else group.certfile
    return KeystoneAddress(str(url), False if group.insecure else group.cafile or True, certificate)


def _failed(exc: Exception) -> KeystoneFailed:
    """Logs why, without the text of the exception, which could repeat the answer."""
    LOG.warning("Keystone unavailable for a login: %s", type(exc).__name__)
    return KeystoneFailed(type(exc).__name__)
