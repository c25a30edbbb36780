# SPDX-License-Identifier: Apache-2.0
"""Which JSON Web Tokens are accepted."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.watch.bearer_tokens import InvalidToken, JwtReader

SECRET = "0123456789abcdef0123456789abcdef"


def public(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return str(key.public_key().public_bytes(serialization.Encoding.PEM, form).decode())


def signed(key: Any, algorithm: str, **claims: Any) -> str:
    content = {"sub": "u1", "exp": time.time() + 60, "roles": ["reader"], "project_id": "p1"} | claims
    return jwt.encode({name: each for name, each in content.items() if each is not None}, key, algorithm)


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def test_a_token_of_the_key_has_its_claims(rsa_key: rsa.RSAPrivateKey) -> None:
    claims = JwtReader({"a": public(rsa_key)}, ["RS256"]).read(signed(rsa_key, "RS256"))
    assert (claims.subject, claims.project_id, claims.roles) == ("u1", "p1", ("reader",))


def test_a_token_of_any_of_several_keys_is_accepted(rsa_key: rsa.RSAPrivateKey) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    reader = JwtReader({"a": public(curve), "b": public(rsa_key)}, ["RS256", "ES256"])
    assert reader.read(signed(rsa_key, "RS256")).subject == "u1"
    assert reader.read(signed(curve, "ES256")).subject == "u1"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"roles": "admin"},
        {"roles": [1]},
        {"project_id": 7},
        {"iss": "other"},
        {"aud": "other"},
    ],
)
def test_a_token_with_wrong_claims_is_refused(claims: dict[str, Any]) -> None:
    reader = JwtReader({"a": SECRET}, ["HS256"], issuer="us", audience="watch")
    good = {"iss": "us", "aud": "watch"}
    assert reader.read(signed(SECRET, "HS256", **good)).subject == "u1"
    with pytest.raises(InvalidToken):
        reader.read(signed(SECRET, "HS256", **(good | claims)))


def test_a_token_of_another_key_or_algorithm_is_refused(rsa_key: rsa.RSAPrivateKey) -> None:
    other = rsa.generate_private_key(65537, 2048)
    reader = JwtReader({"a": public(rsa_key)}, ["RS256"])
    unsigned = jwt.encode({"sub": "u1", "exp": time.time() + 60}, None, "none")
    for token in (signed(other, "RS256"), signed(rsa_key, "RS512"), signed(SECRET, "HS256"), unsigned, "x", ""):
        with pytest.raises(InvalidToken):
            reader.read(token)


@pytest.mark.parametrize(
    ("keys", "algorithms"),
    [([], ["RS256"]), ([SECRET], ["none"]), ([SECRET], []), ([SECRET], ["HS256", "RS256"]), (["short"], ["HS256"]),
     (["no key"], ["RS256"])],
)  # fmt: skip
def test_keys_and_algorithms_that_do_not_fit_are_refused(keys: list[str], algorithms: list[str]) -> None:
    with pytest.raises(ConfigError, match="jwt_"):
        JwtReader({f"{number}.pem": key for number, key in enumerate(keys)}, algorithms)
