# SPDX-License-Identifier: Apache-2.0
"""Encrypts the signing secrets of subscriptions with keys from the configuration.

The cipher is Fernet (AES-128-CBC and HMAC-SHA256). The first key encrypts, and every key decrypts. To rotate keys,
an operator puts a new key first. ``watcher-sync-manage subscription reencrypt`` encrypts all rows with it. Then the
operator removes the old key.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import ConfigError, WatcherSyncError


class SecretUnreadable(WatcherSyncError):
    """None of the configured keys decrypts the secrets of a subscription."""


class ActiveSecret(msgspec.Struct, frozen=True):
    """A secret that signs."""

    secret: str
    """``whsec_`` and base64, as the subscriber gave it."""
    expires_at: datetime.datetime | None = None
    """When it ceases to sign, because a newer one replaced it; None: never."""

    def __repr__(self) -> str:
        return f"ActiveSecret(expires_at={self.expires_at})"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[ActiveSecret]).decode


class SecretBox:
    """Encrypts and decrypts the secrets of one subscription together."""

    def __init__(self, keys: Sequence[str]) -> None:
        """:param keys: of ``[outlet_webhook] secret_keys``; none: nothing can be encrypted.

        :raises ConfigError: a key is not 32 bytes in URL-safe base64.
        """
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys]) if keys else None
        except ValueError:
            raise ConfigError(
                "[outlet_webhook] secret_keys: each key is 32 random bytes in URL-safe base64; "
                "'watcher-sync-manage subscription key' prints one"
            ) from None

    @property
    def is_usable(self) -> bool:
        """Whether there is a key."""
        return self._fernet is not None

    def seal(self, secrets: Sequence[ActiveSecret]) -> str | None:
        """Encrypt secrets; None if there are none.

        :raises SecretUnreadable: no key is configured.
        """
        if not secrets:
            return None
        if self._fernet is None:
            raise SecretUnreadable("[outlet_webhook] secret_keys is not set")
        return self._fernet.encrypt(_encode(list(secrets))).decode()

    def open(self, sealed: str | None) -> list[ActiveSecret]:
        """Decrypt secrets, the newest first.

        :raises SecretUnreadable: no configured key fits.
        """
        if sealed is None:
            return []
        if self._fernet is None:
            raise SecretUnreadable("[outlet_webhook] secret_keys is not set")
        try:
            return _decode(self._fernet.decrypt(sealed.encode()))
        except (InvalidToken, *UNDECODABLE):
            raise SecretUnreadable("no key of [outlet_webhook] secret_keys decrypts the secrets") from None

    def renew(self, sealed: str) -> str:
        """Encrypt sealed secrets with the first key.

        :raises SecretUnreadable: no configured key fits.
        """
        return self.seal(self.open(sealed)) or ""


def new_key() -> str:
    """A random key for ``[outlet_webhook] secret_keys``."""
    return Fernet.generate_key().decode()
