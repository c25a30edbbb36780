# SPDX-License-Identifier: Apache-2.0
"""How a command gets the secret of an operation: from a file, stdin or the environment, never from the command line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from watcher_sync.client.commands.errors import WrongUsage

ENVIRONMENT: Final = "WATCHER_SYNC_OPERATION_SECRET"


def add_secret(parser: argparse.ArgumentParser) -> None:
    """Adds ``--secret-file``."""
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help=f"file with the secret that 'vnf operation create' printed; - is stdin (default: {ENVIRONMENT})",
    )


def given_secret(parsed_args: argparse.Namespace) -> str | None:
    """The secret; None if the command has none.

    :raises WrongUsage: when the file cannot be read, or has no secret.
    """
    name = parsed_args.secret_file
    return secret_of_file(name) if name is not None else os.environ.get(ENVIRONMENT) or None


def secret_of_file(name: str) -> str:
    """The secret in a file.

    :param name: path of the file; ``-``: stdin.
    :raises WrongUsage: when the file cannot be read, or has no secret.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as exc:
        raise WrongUsage(f"--secret-file {name}: {getattr(exc, 'strerror', None) or 'is no text'}") from None
    secret = text.strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise WrongUsage(f"--secret-file {name}: has no secret")
    return secret


def required_secret(parsed_args: argparse.Namespace) -> str:
    """The secret.

    :raises WrongUsage: when there is none, or the file cannot be read.
    """
    secret = given_secret(parsed_args)
    if secret is None:
        raise WrongUsage(f"the secret of the operation is needed: give --secret-file FILE, or set {ENVIRONMENT}")
    return secret
