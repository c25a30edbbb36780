# SPDX-License-Identifier: Apache-2.0
"""The microversions of the API: the header ``OpenStack-API-Version: watcher-sync 1.N`` (microversion specification).

A request without the header has the oldest version, and ``latest`` is the newest. After the first release, each change
of a request or of an answer is a new version:

* :data:`VERSIONS` ends with it, and the history of the documentation has a line for it,
* an operation names it as ``since``. The schema of a parameter, header or member has it as :data:`SINCE`. Older
  versions are validated and documented without them,
* a method asks ``call.version`` before it answers with something new,
* a test compares the document of each version with a stored one (``python -m tests.api_documents`` stores them).
"""

from __future__ import annotations

from typing import Any, Final

import falcon
import microversion_parse
from microversion_parse import Version

from watcher_sync.api.http.problems import Problem, bad_request

SERVICE_TYPE: Final = "watcher-sync"

HEADER: Final = "OpenStack-API-Version"

VERSIONS: Final = ("1.0",)
"""All versions, the oldest first."""

OLDEST: Final = microversion_parse.parse_version_string(VERSIONS[0])
NEWEST: Final = microversion_parse.parse_version_string(VERSIONS[-1])

SINCE: Final = "x-since"
"""Member of the schema of something that older versions do not have: the version that added it."""


def negotiate(request: falcon.Request, response: falcon.Response) -> Version:
    """Returns the version of a request, and names it in the answer.

    The paths of other interfaces (Axway, SOL003) have no versions of ours: they have everything.

    :raises Problem: 400 for a version that is none, 406 for one that this release does not have.
    """
    if not (request.path == "/v1" or request.path.startswith("/v1/") or request.path == "/openapi.json"):
        return NEWEST
    given = request.get_header(HEADER)
    try:
        version = microversion_parse.extract_version({HEADER: given or ""}, SERVICE_TYPE, VERSIONS)
    except TypeError:
        raise bad_request("header", f"/{HEADER}", f"{given!r} has no version like {SERVICE_TYPE} {NEWEST}") from None
    except ValueError:
        detail = f"This release has the versions {OLDEST} to {NEWEST} of {SERVICE_TYPE}, not {given!r}"
        raise Problem(406, detail, min_version=str(OLDEST), max_version=str(NEWEST)) from None
    response.set_header(HEADER, f"{SERVICE_TYPE} {version}")
    return version


def is_newer(since: str, version: Version) -> bool:
    """Whether something is newer than a version.

    :param since: the version that added it.
    """
    return bool(microversion_parse.parse_version_string(since) > version)


def schema_at(schema: Any, version: Version) -> Any:
    """A JSON Schema, or a mapping or list of them, without what is newer than a version."""
    if isinstance(schema, list):
        return [schema_at(each, version) for each in schema if not _is_new(each, version)]
    if not isinstance(schema, dict):
        return schema
    old = {name: schema_at(each, version) for name, each in schema.items() if not _is_new(each, version)}
    if isinstance(required := schema.get("required"), list) and isinstance(members := schema.get("properties"), dict):
        gone = members.keys() - old["properties"].keys()
        old["required"] = [name for name in required if name not in gone]
    return old


def _is_new(schema: Any, version: Version) -> bool:
    return isinstance(schema, dict) and isinstance(since := schema.get(SINCE), str) and is_newer(since, version)
