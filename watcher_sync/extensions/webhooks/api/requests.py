# SPDX-License-Identifier: Apache-2.0
"""What a subscriber asks for, checked beyond the schema: the callback, the filters and the secret.

Guaranteed: no problem repeats a secret or a callback URL. The database gets a secret in encrypted form only.

Used by all threads of a process.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from oslo_config import cfg

from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.rules import ADMIN_ONLY_FIELDS
from watcher_sync.extensions.webhooks.api.bodies import FILTERS
from watcher_sync.extensions.webhooks.api.instance_status import require_resource_kinds
from watcher_sync.extensions.webhooks.onap.documents import resource_kinds
from watcher_sync.extensions.webhooks.options import parsed_networks
from watcher_sync.extensions.webhooks.rows import SubscriptionRow
from watcher_sync.extensions.webhooks.secrets import ActiveSecret, SecretBox, SecretUnreadable
from watcher_sync.extensions.webhooks.standard_webhooks import BadSecret, parse_secret
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.wire.callback_urls import BadCallback, check_callback

MAX_METADATA_BYTES: Final = 16_384
MAX_SECRETS: Final = 3
"""Secrets of one subscription that sign at one time."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a subscription that its subscriber chooses."""

    callback_url: str
    min_notify_interval: float
    metadata: dict[str, Any]
    payload: str
    format: str
    filter: dict[str, Any]
    secrets: str | None
    """Encrypted."""


class SubscriptionRequests:
    """Checks the bodies of requests."""

    def __init__(self, conf: cfg.ConfigOpts, kinds: Kinds, now: Callable[[], datetime.datetime]) -> None:
        """:raises ConfigError: when ``[outlet_webhook] secret_keys`` is unusable."""
        self._settings = conf.outlet_webhook
        self._kinds = kinds
        self._now = now
        self._box = SecretBox(self._settings.secret_keys)

    def require_enabled(self) -> None:
        """:raises Problem: 503 when no webhooks are delivered."""
        if not self._settings.enabled:
            raise Problem(503, "Subscriptions are disabled on this site ([outlet_webhook] enabled)")

    def wanted(self, call: Call, kind: str, before: SubscriptionRow | None = None) -> Wanted:
        """What the body of a request asks for.

        :param kind: the kind of the instance.
        :param before: the subscription that it replaces.
        :raises Problem: 400 with the wrong field; 403 when the caller does not see a field that it names.
        """
        body: Mapping[str, Any] = call.body
        self._check_callback(body["callback-url"])
        metadata = body.get("metadata", {})
        if len(msgspec.json.encode(metadata)) > MAX_METADATA_BYTES:
            raise bad_request("body", "/metadata", f"has more than {MAX_METADATA_BYTES} bytes as JSON")
        chosen = {name: body[name] for name in FILTERS if name in body}
        self._check_filters(call, kind, chosen)
        return Wanted(
            callback_url=body["callback-url"],
            min_notify_interval=float(body.get("min-notify-interval", 0)),
            metadata=metadata,
            payload=body.get("payload", "status"),
            format=body.get("format", "onap"),
            filter=chosen,
            secrets=self._secrets(body.get("secret"), before.secrets if before is not None else None),
        )

    def _check_callback(self, url: str) -> None:
        try:
            allowed = parsed_networks(self._settings.allowed_networks)
            check_callback(url, allow_http=self._settings.allow_http, allowed=allowed)
        except BadCallback as exc:
            raise bad_request("body", "/callback-url", f"the callback is refused: {exc}") from None

    def _check_filters(self, call: Call, kind: str, chosen: Mapping[str, Any]) -> None:
        require_resource_kinds(kind, chosen.get("kinds", ()), "body")
        names = chosen.get("kinds") or [name for name in resource_kinds(kind) if name != "vnf_instance"]
        declared = [self._kinds[name] for name in names]
        for number, field in enumerate(chosen.get("fields", ())):
            self._check_field(call, declared, field, f"/fields/{number}")
        if "labels" in chosen and not any("labels" in one.fields for one in declared):
            raise bad_request("body", "/labels", f"a {' or a '.join(names)} has no labels")

    def _check_field(self, call: Call, declared: list[Kind], field: str, pointer: str) -> None:
        having = [one for one in declared if field in one.public]
        if not having:
            text = f"no resource of the kinds {', '.join(one.name for one in declared)} has this field"
            raise bad_request("body", pointer, text)
        if all(call.context.hidden(one).get(field) == () for one in having):
            refused = call.context.refusal([ADMIN_ONLY_FIELDS])
            raise Problem(refused.status, f"{refused.detail} (field {field})")

    def _secrets(self, given: str | None, sealed: str | None) -> str | None:
        """The encrypted secrets after the request.

        :param given: None: they stay as they are; empty: they are removed.
        :param sealed: those before.
        """
        if given is None:
            return sealed
        if not given:
            return None
        try:
            parse_secret(given)
        except BadSecret as exc:
            raise bad_request("body", "/secret", str(exc)) from None
        if not self._box.is_usable:
            text = "this site has no key to encrypt secrets with ([outlet_webhook] secret_keys)"
            raise bad_request("body", "/secret", text)
        try:
            before = self._box.open(sealed)
        except SecretUnreadable:
            before = []  # Its key is gone, so that it signs no longer. The new secret replaces it.
        if before and before[0].secret == given:
            return sealed
        return self._box.seal([ActiveSecret(given), *self._retired(before, given)][:MAX_SECRETS])

    def _retired(self, before: list[ActiveSecret], given: str) -> list[ActiveSecret]:
        """The former secrets that still sign, each until a time."""
        now = self._now()
        end = now + datetime.timedelta(seconds=self._settings.secret_overlap)
        ends = [(one.secret, end if one.expires_at is None else min(one.expires_at, end)) for one in before]
        return [ActiveSecret(secret, until) for secret, until in ends if until > now and secret != given]
