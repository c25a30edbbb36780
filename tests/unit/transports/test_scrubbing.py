# SPDX-License-Identifier: Apache-2.0
"""No spelling of a password, and no part of one, is in what the status and the log show of an error."""

from __future__ import annotations

import json
import re
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.transports.scrubbing import without_secrets

PASSWORDS = st.text(min_size=1, max_size=20) | st.text("ab/@:%?#,+ ", min_size=1, max_size=12)


def beside(password: str) -> str:
    """A character that is no part of the password."""
    return next(character for character in "<>|~^!$*(){};'\"-.&=" if character not in password)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, str]:
    """A password, and the same with any of its characters percent-encoded, once or twice, or escaped."""
    password = draw(PASSWORDS)
    whole = {
        "repr": repr(password)[1:-1],
        "json": json.dumps(password)[1:-1],
        "quoted": urllib.parse.quote(password, errors="surrogatepass"),
        "plus": urllib.parse.quote_plus(password, errors="surrogatepass"),
    }
    if (how := draw(st.sampled_from(["any", *whole]))) != "any":
        return password, whole[how]
    characters = []
    for character in password:
        encoded = "".join(f"%{byte:02x}" for byte in character.encode(errors="surrogatepass"))
        forms = [character, encoded, encoded.upper(), encoded.replace("%", "%25")]
        characters.append(draw(st.sampled_from(forms)))
    return password, "".join(characters)


@given(spelled())
def test_a_password_is_removed_in_every_spelling(made: tuple[str, str]) -> None:
    password, text = made
    mark = beside(password)
    assert without_secrets(f"{mark}{text}{mark}", [password]) == f"{mark}***{mark}"


@given(PASSWORDS)
def test_each_part_between_the_delimiters_of_a_url_is_removed(password: str) -> None:
    for part in re.split(r"[/@:?#,;&=%+\[\]\s]+", password):
        if len(part) > 1:
            mark = beside(password)
            assert without_secrets(f"invalid port: {mark}{part}{mark}", ["", password]).endswith(f": {mark}***{mark}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invalid literal for int() with base 10: 'pa'", "invalid literal for int() with base 10: '***'"),
        ("amqp://u:pa%2Fss%40word@host", "amqp://u:***@host"),
        ("amqp://u:pa/ss%2540word@host", "amqp://u:***@host"),
        ("cannot resolve ss@word", "cannot resolve ***@***"),
        ("the path is passable", "the path is passable"),
    ],
)
def test_an_error_of_a_library_remains_legible_without_the_password(text: str, shown: str) -> None:
    assert without_secrets(text, ["pa/ss@word"]) == shown


def test_a_text_without_secrets_remains() -> None:
    assert without_secrets("text", []) == without_secrets("text", ["", ""]) == "text"
