# SPDX-License-Identifier: Apache-2.0
"""Checks the files that options name, so that no process starts with one that its first use would refuse.

Each error is one line with the section, the option and the file.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from watcher_sync.exceptions import ConfigError

Named = tuple[str, str | None]
"""An option, and the file that it names; None or empty: none."""


def read_text(section: str, option: str, path: str, *, may_be_empty: bool = False) -> str:
    """The content of a text file.

    :raises ConfigError: the file cannot be read, is no text in UTF-8, or is empty and may not be.
    """
    try:
        text = _content(section, option, path).decode()
    except UnicodeDecodeError:
        raise _unusable(section, option, path, "it is not UTF-8") from None
    if not may_be_empty and not text.strip():
        raise _unusable(section, option, path, "it is empty")
    return text


def check_tls(
    section: str,
    authorities: Named,
    certificate: Named = ("", None),
    key: Named = ("", None),
    *,
    allow_folder: bool = False,
    password: str = "",
) -> None:
    """Check files in PEM as a TLS library loads them.

    :param certificate: with its key, if ``key`` names no file.
    :param allow_folder: whether ``authorities`` may name a folder with hashed names, as OpenSSL has it.
    :param password: of the key. Without one OpenSSL would ask for it on the terminal.
    :raises ConfigError: a file cannot be read or has something else.
    """
    option, path = authorities
    if path and not (allow_folder and os.path.isdir(path)):
        _check_certificates(section, option, path)
    option, path = certificate
    if not path:
        return
    _check_certificates(section, option, path)
    key_option, key_path = key if key[1] else certificate
    assert key_path is not None
    _content(section, key_option, key_path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path, key_path, password)
    except (OSError, ValueError) as exc:
        reason = "it has another key" if "MISMATCH" in str(exc) else "it has no private key (PEM) that can be read"
        raise _unusable(section, key_option, key_path, f"{reason} for {option} = {path}") from None


def _check_certificates(section: str, option: str, path: str) -> None:
    _content(section, option, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ValueError):
        raise _unusable(section, option, path, "it has no certificate (PEM)") from None


def _content(section: str, option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise _unusable(section, option, path, exc.strerror or str(exc)) from None
    except ValueError as exc:  # a null in the name
        raise _unusable(section, option, path, str(exc)) from None


def _unusable(section: str, option: str, path: str, reason: str) -> ConfigError:
    return ConfigError(f"[{section}] {option}: {path}: {reason}")
