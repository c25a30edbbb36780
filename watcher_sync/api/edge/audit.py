# SPDX-License-Identifier: Apache-2.0
"""CADF notifications of requests, by ``keystonemiddleware.audit``, if ``[api] audit`` is set.

The middleware sends ``audit.http.request`` before a request is handled, and ``audit.http.response`` after it, to the
topics of ``[oslo_messaging_notifications]`` or ``[audit_middleware_notifications]``. It logs a notification that it
cannot send, and the request continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oslo_config import cfg

from watcher_sync.conf import files

_SERVICE = "watcher-sync"
_NOTIFICATIONS = "oslo_messaging_notifications"
_MAX_RETRIES = 1
"""By default oslo.messaging retries without end, and a request would wait for the broker."""

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Wraps the application in the audit middleware, if the configuration asks for it.

    :raises ConfigError: the map of the audit cannot be read.
    """
    if not conf.api.audit:
        return application
    # Imported here: the import is slow, and an API without audit does not need it.
    import oslo_messaging
    from keystonemiddleware import audit

    map_file: str = conf.api.audit_map_file
    files.read_text("api", "audit_map_file", map_file)
    oslo_messaging.get_notification_transport(conf)  # registers the options
    conf.set_default("retry", _MAX_RETRIES, group=_NOTIFICATIONS)
    audited: Wsgi = audit.AuditMiddleware(
        application,
        oslo_config_config=conf,
        audit_map_file=map_file,
        ignore_req_list=",".join(conf.api.audit_ignored_methods),
        service_name=_SERVICE,
        log_name=__name__,
    )
    return audited
