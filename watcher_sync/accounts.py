# SPDX-License-Identifier: Apache-2.0
"""Lets several threads use one account of Keystone, in the client and in the reconcilers, and names failures' causes.

``get_access`` of keystoneauth reads the token after it has released its own lock. A thread whose request was refused
may have discarded it by then, and the call ends with an ``AssertionError``.

If Keystone answers 401 to the request for its versions, the library repeats that with a token. It gets the token inside
``get_access``, whose lock the same thread already holds.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final


def share_between_threads(auth: Any) -> None:
    """Have one thread at a time get or discard the token of an account.

    :param auth: an authentication plugin of keystoneauth; one without a token, or None, needs nothing.
    """
    if isinstance(getattr(auth, "get_access", None), _Alone | None):
        return
    lock = threading.RLock()
    auth.get_access = _Alone(_Once(auth.get_access), lock)
    auth.invalidate = _Alone(auth.invalidate, lock)


def lack_of(cloud: Any) -> str:
    """What the account of a cloud lacks at its first request, which the library finds only then; empty: nothing.

    :param cloud: a ``CloudRegion`` of openstacksdk.
    """
    from keystoneauth1 import loading

    auth_type = cloud.config["auth_type"]
    options = (option.dest for option in loading.get_plugin_options(auth_type))
    if "password" not in options or cloud.get_auth_args().get("password"):
        return ""
    return f"cloud {cloud.name}: password: not set; auth_type = {auth_type} needs it"


def cause_of(error: BaseException) -> str:
    """The message of the operating system, from the innermost exception; empty if there is none."""
    found = ""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            found = inner.strerror
        inner = inner.__cause__ or inner.__context__
    return found


def tls_cause_of(error: BaseException) -> str:
    """What TLS refuses, without the names of hosts that the messages of the library have; empty if it is unknown."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError):
            is_host = inner.verify_code in _WRONG_HOST
            why = "it is for another host" if is_host else inner.verify_message
            return f"the certificate cannot be verified: {why}"
        if isinstance(inner, ssl.SSLError) and inner.reason:
            return f"TLS: {inner.reason}"
        inner = inner.__cause__ or inner.__context__
    return ""


_WRONG_HOST: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL, whose messages name the host."""


class _Alone:
    """Calls a method while no other method with the same lock runs."""

    def __init__(self, method: Callable[..., Any], lock: AbstractContextManager[Any]) -> None:
        self._method = method
        self._lock = lock

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return self._method(*args, **kwargs)


class _Once:
    """Calls a method that would wait for itself if it were called in its own call. One thread at a time calls it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._runs = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """:raises keystoneauth1.exceptions.Unauthorized: within another call; the library then goes by the URL."""
        # Imported here: most processes have no account.
        from keystoneauth1 import exceptions

        if self._runs:
            raise exceptions.Unauthorized("Keystone asks for a token where it tells its versions")
        self._runs = True
        try:
            return self._method(*args, **kwargs)
        finally:
            self._runs = False
