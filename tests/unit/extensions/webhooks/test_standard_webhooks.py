# SPDX-License-Identifier: Apache-2.0
"""Signatures of Standard Webhooks: the vector of the specification, other libraries' opinion, and what is refused."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import pytest
import standardwebhooks

from watcher_sync.extensions.webhooks.standard_webhooks import (
    BadSecret,
    BadSignature,
    headers,
    new_secret,
    parse_secret,
    sign,
    verify,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIME = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def secret_of(length: int) -> str:
    return "whsec_" + base64.b64encode(b"\x07" * length).decode()


def test_the_vector_of_the_specification_is_signed_as_it_says() -> None:
    assert sign([parse_secret(SECRET)], ID, TIME, BODY) == SIGNATURE


def test_each_secret_makes_one_signature_in_order() -> None:
    old, new = parse_secret(SECRET), parse_secret(new_secret())

    both = sign([new, old], ID, TIME, BODY)

    assert both == f"{sign([new], ID, TIME, BODY)} {SIGNATURE}"


def test_without_a_secret_there_is_an_id_and_a_time_but_no_signature() -> None:
    assert headers([], ID, TIME, BODY) == {"webhook-id": ID, "webhook-timestamp": str(TIME)}


@pytest.mark.parametrize("position", [0, 1])
def test_the_library_of_the_specification_accepts_our_headers(position: int) -> None:
    texts = [new_secret(), new_secret()]
    now = int(time.time())

    one = headers([parse_secret(texts[position])], ID, now, BODY)
    two = headers([parse_secret(text) for text in texts], ID, now, BODY)

    library = standardwebhooks.Webhook(texts[position])
    assert library.verify(BODY, one) == library.verify(BODY, two) == {"test": 2432232314}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new_secret()).verify(BODY, two)


def test_what_the_library_of_the_specification_signs_is_accepted() -> None:
    text = new_secret()
    now = time.time()
    signature = standardwebhooks.Webhook(text).sign(ID, datetime.fromtimestamp(now, UTC), BODY.decode())

    verify(
        parse_secret(text),
        {"Webhook-Id": ID, "Webhook-Timestamp": str(int(now)), "Webhook-Signature": signature},
        BODY,
        now=now,
    )


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_of_24_to_64_bytes_is_read(length: int) -> None:
    assert parse_secret(secret_of(length)) == b"\x07" * length


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        secret_of(23),
        secret_of(65),
        SECRET + "=",
        SECRET + "!",
        SECRET + "\n",
        f" {SECRET}",
        "whsec_" + "é" * 32,
        "whsec_\ud800",
    ],
)
def test_other_texts_are_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(BadSecret) as refusal:
        parse_secret(text)

    key = text.removeprefix("whsec_")
    assert not key or key not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_new_secrets_differ_and_are_valid() -> None:
    made = {new_secret() for _ in range(20)}

    assert len(made) == 20
    assert all(len(parse_secret(text)) == 32 for text in made)


def test_a_receiver_accepts_any_of_several_signatures() -> None:
    old, new = parse_secret(SECRET), parse_secret(new_secret())
    sent = headers([new, old], ID, TIME, BODY)

    verify(old, sent, BODY, now=TIME)
    verify(new, sent, BODY, now=TIME + 300)
    verify(new, sent, BODY, now=TIME - 300)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"webhook-id": "msg_other"}, "no signature fits"),
        ({"webhook-timestamp": str(TIME + 1)}, "no signature fits"),
        ({"webhook-signature": SIGNATURE.replace("v1,", "v2,")}, "no signature fits"),
        ({"webhook-signature": SIGNATURE.replace("v1,", "")}, "no signature fits"),
        ({"webhook-signature": "v1,é"}, "no signature fits"),
        ({"webhook-signature": ""}, "webhook-signature is missing"),
        ({"webhook-id": ""}, "webhook-id is missing"),
        ({"webhook-timestamp": ""}, "webhook-timestamp is missing"),
        ({"webhook-timestamp": "yesterday"}, "not a number"),
        ({"webhook-timestamp": "9" * 5000}, "not a number"),
        ({"webhook-timestamp": "1e9"}, "not a number"),
    ],
)
def test_a_changed_header_is_refused(change: dict[str, str], reason: str) -> None:
    secret = parse_secret(SECRET)
    sent = headers([secret], ID, TIME, BODY)

    with pytest.raises(BadSignature, match=reason):
        verify(secret, {**sent, **change}, BODY, now=TIME)


def test_a_changed_body_and_another_secret_are_refused() -> None:
    secret = parse_secret(SECRET)
    sent = headers([secret], ID, TIME, BODY)

    with pytest.raises(BadSignature):
        verify(secret, sent, BODY + b" ", now=TIME)
    with pytest.raises(BadSignature):
        verify(parse_secret(new_secret()), sent, BODY, now=TIME)


@pytest.mark.parametrize("away", [-301, 301])
def test_an_old_or_future_timestamp_is_refused(away: int) -> None:
    secret = parse_secret(SECRET)

    with pytest.raises(BadSignature, match="more than 300 seconds"):
        verify(secret, headers([secret], ID, TIME, BODY), BODY, now=TIME + away)
