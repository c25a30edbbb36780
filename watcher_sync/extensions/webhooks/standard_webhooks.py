# SPDX-License-Identifier: Apache-2.0
"""Standard Webhooks: secrets, signatures and headers of signed messages, with the symmetric scheme v1.

A signature is the HMAC-SHA256 of ``{id}.{timestamp}.{body}``. While a secret is rotated, a message carries one
signature for each secret, and a receiver accepts any of them. No error contains a secret or a signature.

Pure functions, for any thread.

Source: the Standard Webhooks specification 1.0.0.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as system_secrets
from collections.abc import Mapping, Sequence
from typing import Final

SECRET_PREFIX: Final = "whsec_"

_MIN_SECRET_BYTES: Final = 24
_MAX_SECRET_BYTES: Final = 64
_NEW_SECRET_BYTES: Final = 32

_ID_HEADER: Final = "webhook-id"
_TIMESTAMP_HEADER: Final = "webhook-timestamp"
_SIGNATURE_HEADER: Final = "webhook-signature"

_VERSION: Final = "v1"
"""The symmetric scheme. ``v1a`` is the asymmetric one."""

_MAX_TIMESTAMP_DIGITS: Final = 15


class BadSecret(ValueError):
    """A text is no secret of this scheme. The reason does not repeat the text."""


class BadSignature(ValueError):
    """A message is not signed with the secret, or it is too old or too new."""


def parse_secret(text: str) -> bytes:
    """The key that a secret contains.

    :param text: ``whsec_`` and the base64 text of 24 to 64 bytes.
    :raises BadSecret: with the reason, without the secret.
    """
    if not text.startswith(SECRET_PREFIX):
        raise BadSecret(f"the secret does not begin with {SECRET_PREFIX}")
    encoded = text.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise BadSecret(f"the secret is not valid base64 after {SECRET_PREFIX}") from None
    # The decoder ignores what follows the padding.
    if base64.b64encode(key).decode() != encoded:
        raise BadSecret(f"the secret is not valid base64 after {SECRET_PREFIX}")
    if not _MIN_SECRET_BYTES <= len(key) <= _MAX_SECRET_BYTES:
        raise BadSecret(f"the secret has {len(key)} bytes, not {_MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES}")
    return key


def new_secret() -> str:
    """A new secret of 32 random bytes from the operating system, as :func:`parse_secret` reads it."""
    return SECRET_PREFIX + base64.b64encode(system_secrets.token_bytes(_NEW_SECRET_BYTES)).decode()


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of webhook-signature: one signature for each secret, in their order, separated by spaces.

    :param secrets: keys, as :func:`parse_secret` gives them.
    :param timestamp: the time of the attempt in whole seconds since 1970.
    :param body: the bytes that are sent, unchanged.
    """
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"{_VERSION},{_signature(secret, content)}" for secret in secrets)


def headers(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt: id, timestamp, and the signatures if there is a secret.

    The parameters are those of :func:`sign`. All attempts of one message have the same id.
    """
    result = {_ID_HEADER: message_id, _TIMESTAMP_HEADER: str(timestamp)}
    if secrets:
        result[_SIGNATURE_HEADER] = sign(secrets, message_id, timestamp, body)
    return result


def verify(secret: bytes, headers: Mapping[str, str], body: bytes, *, now: float, tolerance: float = 300) -> None:
    """Checks a received message in a time that does not depend on the signature.

    :param headers: of the request, with names in any case.
    :param now: seconds since 1970.
    :param tolerance: how many seconds the timestamp may differ from now, either way.
    :raises BadSignature: when no signature fits, a header is missing, or the timestamp is out of tolerance.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (_ID_HEADER, _TIMESTAMP_HEADER, _SIGNATURE_HEADER) if not lower.get(name)]
    if missing:
        raise BadSignature(f"the header {missing[0]} is missing")
    timestamp = _timestamp_of(lower[_TIMESTAMP_HEADER])
    if abs(now - timestamp) > tolerance:
        raise BadSignature(f"the timestamp differs from now by more than {tolerance:g} seconds")
    content = b"%s.%d.%s" % (lower[_ID_HEADER].encode(errors="surrogateescape"), timestamp, body)
    expected = _signature(secret, content).encode()
    fits = False
    for part in lower[_SIGNATURE_HEADER].split(" "):
        version, _, signature = part.partition(",")
        # Every signature is compared, so that the time does not say which one fits.
        same = hmac.compare_digest(signature.encode(errors="surrogateescape"), expected)
        fits |= same and version == _VERSION
    if not fits:
        raise BadSignature("no signature fits")


def _timestamp_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_TIMESTAMP_DIGITS):
        raise BadSignature("the timestamp is not a number of seconds")
    return int(text)


def _signature(secret: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()
