# SPDX-License-Identifier: Apache-2.0
"""An operator, an account with JetStream and its users, as NATS' decentralised authentication has them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import nkeys

_ENDLESS = {"subs": -1, "data": -1, "payload": -1}
_ACCOUNT_LIMITS = _ENDLESS | {
    "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
    "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
}  # fmt: skip


def new_seed(kind: int) -> bytes:
    """The seed of a new key, such as ``nkeys.PREFIX_BYTE_USER``."""
    return nkeys.encode_seed(os.urandom(32), kind)


def public_key(seed: bytes) -> str:
    return nkeys.from_seed(bytearray(seed)).public_key.decode()


class Operator:
    """Signs one account and as many users as are asked for."""

    def __init__(self) -> None:
        self._operator = new_seed(nkeys.PREFIX_BYTE_OPERATOR)
        self._account = new_seed(nkeys.PREFIX_BYTE_ACCOUNT)
        self._system = new_seed(nkeys.PREFIX_BYTE_ACCOUNT)

    def server_config(self) -> str:
        """What the server's configuration needs to trust the users."""
        me, account, system = (public_key(seed) for seed in (self._operator, self._account, self._system))
        operator_jwt = _jwt(self._operator, me, "operator", {"type": "operator", "version": 2})
        claims = {"type": "account", "version": 2}
        account_jwt = _jwt(self._operator, account, "account", claims | {"limits": _ACCOUNT_LIMITS})
        no_jetstream = _ACCOUNT_LIMITS | {"mem_storage": 0, "disk_storage": 0}
        system_jwt = _jwt(self._operator, system, "system", claims | {"limits": no_jetstream})
        return (
            f"operator: {operator_jwt}\nsystem_account: {system}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {account}: {account_jwt}\n {system}: {system_jwt} }}\n"
        )

    def credentials(self, path: Path, *, seconds: float | None = None) -> Path:
        """Write the credentials of a new user; its login ends after so many seconds."""
        seed = new_seed(nkeys.PREFIX_BYTE_USER)
        claims: dict[str, Any] = {"type": "user", "version": 2, **_ENDLESS}
        expires = None if seconds is None else int(time.time() + seconds)
        jwt = _jwt(self._account, public_key(seed), "user", claims, expires=expires)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed.decode()}\n------END USER NKEY SEED------\n"
        )
        return path


def _jwt(signer: bytes, subject: str, name: str, claims: dict[str, Any], *, expires: int | None = None) -> str:
    body: dict[str, Any] = {
        "iat": int(time.time()), "iss": public_key(signer), "name": name, "sub": subject, "nats": claims,
    }  # fmt: skip
    if expires is not None:
        body["exp"] = expires
    digest = hashlib.new("sha512_256", json.dumps(body).encode()).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_text({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_text(body)}"
    return f"{signed}.{_base64(nkeys.from_seed(bytearray(signer)).sign(signed.encode()))}"


def _text(document: dict[str, Any]) -> str:
    return _base64(json.dumps(document, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
