# SPDX-License-Identifier: Apache-2.0
"""Whether a server is usable: each probe logs in as a test would, and does nothing more.

An open port is not enough. On many machines a PostgreSQL or MariaDB requires a password, and tests against it fail with
errors that do not name the reason. The probes implement just enough of each protocol for a login. They use the standard
library only, because they run before the installation.

Each probe returns None if the server is usable, and else one line with the reason.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT = 30.0
"""Seconds to wait for each answer: longer than a pause of a loaded machine."""

DEFAULT_PORTS = {"rabbitmq": 5672, "postgresql": 5432, "mariadb": 3306, "nats": 4222}


def why_unusable(service: str, url: str) -> str | None:
    """None when the service at the URL lets us in, else the reason, in one line without the password."""
    target = urlsplit(url)
    where = f"{target.hostname}:{target.port or DEFAULT_PORTS[service]}"
    try:
        with closing(socket.create_connection((target.hostname, target.port or DEFAULT_PORTS[service]), TIMEOUT)) as s:
            s.settimeout(TIMEOUT)
            refusal = _PROBES[service](s, target)
    except (OSError, EOFError) as exc:
        return f"{where}: {exc or type(exc).__name__}"
    return f"{where}: {refusal}" if refusal else None


def _user(target: SplitResult) -> bytes:
    return unquote(target.username or "").encode()


def _password(target: SplitResult) -> bytes:
    return unquote(target.password or "").encode()


def _exactly(s: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = s.recv(size - len(data))
        if not part:
            raise EOFError("it closed the connection")
        data += part
    return data


def _rabbitmq(s: socket.socket, target: SplitResult) -> str | None:
    """AMQP 0-9-1: the header, Connection.Start, Start-Ok with PLAIN, and Connection.Tune means yes."""
    s.sendall(b"AMQP\x00\x00\x09\x01")
    if _amqp_method(s) != (10, 10):
        return "it does not speak AMQP 0-9-1"
    response = b"\x00" + _user(target) + b"\x00" + _password(target)
    arguments = struct.pack(">I", 0) + b"\x05PLAIN" + struct.pack(">I", len(response)) + response + b"\x05en_US"
    payload = struct.pack(">HH", 10, 11) + arguments
    s.sendall(struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce")
    try:
        accepted = _amqp_method(s) == (10, 30)
    except EOFError:
        accepted = False
    return None if accepted else "it refuses the user"


def _amqp_method(s: socket.socket) -> tuple[int, int]:
    _, _, size = struct.unpack(">BHI", _exactly(s, 7))
    payload = _exactly(s, size + 1)
    major, minor = struct.unpack(">HH", payload[:4])
    return major, minor


def _postgresql(s: socket.socket, target: SplitResult) -> str | None:
    """The startup message; AuthenticationOk is R with 0. A password that is asked for is not checked."""
    parameters = b"user\x00" + _user(target) + b"\x00database\x00postgres\x00\x00"
    s.sendall(struct.pack(">II", len(parameters) + 8, 196_608) + parameters)
    tag, size = struct.unpack(">cI", _exactly(s, 5))
    body = _exactly(s, size - 4)
    if tag == b"E":
        fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\x00") if part}
        return f"it refuses the user: {fields.get(b'M', 'no reason given')}"
    if tag != b"R":
        return "it does not speak PostgreSQL's protocol"
    asks_for_password = struct.unpack(">I", body[:4])[0] != 0
    return "it asks for a password" if asks_for_password and not target.password else None


def _mariadb(s: socket.socket, target: SplitResult) -> str | None:
    """The server's greeting, a login with mysql_native_password, and an OK packet means yes."""
    greeting = _mysql_packet(s)
    if greeting[0] != 10:
        return "it does not speak MySQL's protocol, or refuses connections from here"
    rest = greeting[greeting.index(b"\x00", 1) + 1 :]
    scramble = rest[4:12] + rest[31:43]
    # CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_PLUGIN_AUTH
    login = struct.pack("<IIB23x", 0x0200 | 0x8000 | 0x80000, 2**24, 45) + _user(target) + b"\x00"
    token = _native_password(_password(target), scramble)
    login += bytes([len(token)]) + token + b"mysql_native_password\x00"
    s.sendall(struct.pack("<I", len(login))[:3] + b"\x01" + login)
    answer = _mysql_packet(s)
    if answer[0] == 0:
        return None
    if answer[0] == 0xFF:
        return f"it refuses the user: {answer[9:].decode(errors='replace')}"
    return "it asks for another kind of login"


def _mysql_packet(s: socket.socket) -> bytes:
    head = _exactly(s, 4)
    return _exactly(s, int.from_bytes(head[:3], "little"))


def _native_password(password: bytes, scramble: bytes) -> bytes:
    if not password:
        return b""
    once = hashlib.sha1(password).digest()
    mask = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def _nats(s: socket.socket, target: SplitResult) -> str | None:
    """The INFO line, and a PONG for our CONNECT and PING."""
    if not s.recv(4096).startswith(b"INFO"):
        return "it does not speak NATS"
    s.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    return None if s.recv(4096).startswith(b"PONG") else "it refuses a connection without credentials"


def why_silent(url: str) -> str | None:
    """None when a NATS server greets there, whomever it lets in."""
    target = urlsplit(url)
    try:
        with closing(socket.create_connection((target.hostname, target.port), TIMEOUT)) as s:
            s.settimeout(TIMEOUT)
            return None if s.recv(4096).startswith(b"INFO") else "it does not speak NATS"
    except OSError as exc:
        return str(exc)


_PROBES: dict[str, Callable[[socket.socket, SplitResult], str | None]] = {
    "rabbitmq": _rabbitmq,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
    "nats": _nats,
}
