# SPDX-License-Identifier: Apache-2.0
"""The declaration of a REST method, from which the API validates its requests and generates its documentation.

::

    @operation(
        summary="Show a quarantined event",
        rule=Rule("quarantine:show", ADMIN),
        responses={200: Answer(SCHEMA)},
        errors=(404,),
        tag="quarantine",
    )
    def on_get(self, call: Call, event_id: str) -> None: ...

Where a declaration depends on the entity kind, the resource's constructor declares a bound method::

    self.on_get = operation(summary=f"List {kind.plural}", ...)(self.list)

The declaration names the policy rule with its default, the JSON Schemas (draft 2020-12) of query and body, and the
answers. The responder validates a request before it calls the method. It calls the method again if the database ended
the method's transaction because of a deadlock. The schema's type converts a query parameter: ``integer``, ``number``,
``boolean``, ``array`` (separated by commas), or ``object`` (``name[member]=value``).
"""

from __future__ import annotations

import functools
import inspect
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import falcon
import msgspec
from microversion_parse import Version, parse_version_string

from watcher_sync.api.http.bodies import Body, read_body
from watcher_sync.api.http.microversions import VERSIONS, is_newer, negotiate, schema_at
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.schemas import Schema
from watcher_sync.api.http.validation import pointer, require_valid, validator
from watcher_sync.storage.database.database import run_with_retries

T = TypeVar("T")

JSON = "application/json"

_HISTORY = "/history"
_APIS = "/apis"

_HIDDEN_SLASH = "\ufdd0"
"""Replaces a slash. It is no character of any text (a noncharacter of Unicode)."""

_OF_PATHS = "/:@!$&'()*+,;=~"
"""What a path has beside letters, digits and percent-encoded bytes (RFC 3986, 3.3)."""

REPEATS = "x-repeats"
"""Member of the schema of a parameter: a request may have it several times, once for each entry of the array."""


class Repeated(list[str]):
    """The values of a parameter that a request may have several times."""


Responder = Callable[..., None]
"""What Falcon calls for a method of a route; its attribute ``operation`` is the declaration."""


class Rule(msgspec.Struct, frozen=True):
    """A rule of the policy, and its default, which the operator's policy file may override."""

    name: str
    default: str
    """A constant of :mod:`watcher_sync.api.http.rules`."""
    description: str = ""
    """What it allows, for operators; by default the summaries of its operations."""
    reason: str = ""
    """Why its personas have it, as text after "because"; empty: the usual reason of the default."""


class Answer(msgspec.Struct, frozen=True):
    """The declaration of one successful answer."""

    schema: Schema | None
    """The schema of the body; None: the answer has no body."""
    description: str = "Done"
    headers: tuple[str, ...] = ()
    media_types: tuple[str, ...] = (JSON,)


class RestOperation(msgspec.Struct, frozen=True):
    """One REST method."""

    summary: str
    rules: tuple[Rule, ...]
    """The caller needs one of them."""
    more_rules: tuple[Rule, ...]
    """Rules that the method itself requires for some requests."""
    responses: Mapping[int, Answer]
    errors: tuple[int, ...]
    query: Schema
    body: Body | None
    headers: Mapping[str, Schema]
    path: Mapping[str, Schema]
    tag: str
    description: str
    streams: bool
    """Whether the answer is a stream or a long poll."""
    since: str
    """The microversion that added it."""

    def at(self, version: Version) -> RestOperation:
        """The operation as a microversion has it, which is not older than the operation."""
        body = self.body
        if body is not None:
            body = msgspec.structs.replace(body, schemas=schema_at(body.schemas, version))
        return msgspec.structs.replace(
            self,
            query=schema_at(self.query, version),
            headers=schema_at(self.headers, version),
            body=body,
            responses={
                status: msgspec.structs.replace(answer, schema=schema_at(answer.schema, version))
                for status, answer in self.responses.items()
            },
        )

    @property
    def rule(self) -> Rule:
        """The first of the rules, mostly the only one."""
        return self.rules[0]


class Call(msgspec.Struct):
    """One validated request, and its response.

    The method changes nothing of the request: it runs again if the database ends its transaction in favour of another
    one.
    """

    request: falcon.Request
    response: falcon.Response
    context: RequestContext
    query: dict[str, Any]
    """Parameters in the types of their schemas, with defaults."""
    rule: str
    """The rule of the operation; of several, the first."""
    version: Version
    """The microversion of the request."""
    body: Any = None
    """The decoded body; for a raw media type its bytes."""

    def answer(self, document: Any, status: int = 200) -> None:
        """Answers with a document as JSON."""
        self.response.status = falcon.code_to_http_status(status)
        self.response.content_type = JSON
        self.response.data = msgspec.json.encode(document)

    def link(self, path: str | None = None, *segments: str) -> str:
        """The link to a path of the API. Every link of every answer is made here.

        It is a path without scheme and host (RFC 3986, 4.2), and begins with the path below which the API is served.

        :param path: a path of the API, not percent-encoded; None: that of this request.
        :param segments: what follows it, such as an id, which may have any character.
        """
        way = self.request.root_path + (self.request.path if path is None else path).rstrip("/")
        return "/".join([urllib.parse.quote(way, _OF_PATHS), *(urllib.parse.quote(each, "") for each in segments)])

    def next_page(self, marker: str | int | None) -> dict[str, Any]:
        """``next_marker`` and ``next`` of a page; ``next`` is this request with another marker."""
        if marker is None:
            return {"next_marker": None, "next": None}
        text = str(marker)
        given = [pair for name, value in self.query.items() if name != "marker" for pair in _pairs(name, value)]
        return {
            "next_marker": text,
            "next": f"{self.link()}?{urllib.parse.urlencode([*given, ('marker', text)])}",
        }

    def answer_page(
        self,
        name: str,
        rows: Iterable[T],
        marker_of: Callable[[T], str | int],
        document: Callable[[T], Any] = lambda row: row,
        *,
        more: bool = False,
    ) -> None:
        """Answers with as many of the rows as the request wants and as a page has; further rows are of another page.

        :param name: the member of the answer that has them.
        :param marker_of: returns the marker of the page after a row.
        :param document: makes what is shown of a row.
        :param more: whether rows follow after these ones.
        """
        page = AnswerPage(self.query["limit"])
        page.add_from(rows, marker_of, document, more=more)
        self.answer({name: page.documents, **self.next_page(page.next_marker)})

    def answer_nothing(self) -> None:
        """Answers 204 without a body."""
        self.response.status = falcon.HTTP_204


class _Checks:
    """What validates the requests of one microversion. Equal schemas have one validator."""

    def __init__(self, declared: RestOperation) -> None:
        self.declared = declared
        self.query = validator(declared.query)
        self.headers = validator({"type": "object", "properties": declared.headers})
        self.path = validator({"type": "object", "properties": declared.path})
        self.body = {media: validator(each) for media, each in (declared.body.schemas if declared.body else {}).items()}


def operation(
    *,
    summary: str,
    rule: Rule | Sequence[Rule],
    more_rules: Sequence[Rule] = (),
    responses: Mapping[int, Answer],
    errors: Sequence[int] = (),
    query: Mapping[str, Schema] | None = None,
    required: Sequence[str] = (),
    body: Body | None = None,
    headers: Mapping[str, Schema] | None = None,
    path: Mapping[str, Schema] | None = None,
    tag: str,
    description: str = "",
    streams: bool = False,
    since: str = VERSIONS[0],
) -> Callable[[Callable[..., None]], Responder]:
    """Declares a method of a resource as an operation: a function in its class, or a bound method of an instance.

    :param summary: one line for the documentation.
    :param rule: the rule of the policy that the caller needs; of several, one.
    :param more_rules: rules that the method itself requires for some requests.
    :param responses: status -> the answer of a success.
    :param errors: statuses of the problems that the method itself raises. Those of the validation are added.
    :param query: parameter -> schema. The API refuses other parameters.
    :param required: the parameters without which it refuses a request.
    :param headers: request header -> schema.
    :param path: path parameter -> schema, for an id that the operation may create. Other parameters need no schema:
        an impossible id is not found.
    :param tag: the group of the operation in the documentation.
    :param since: the microversion that added it; for older ones it does not exist.
    """
    schema: Schema = {"type": "object", "properties": dict(query or {}), "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    declared = RestOperation(
        summary=summary,
        rules=(rule,) if isinstance(rule, Rule) else tuple(rule),
        more_rules=tuple(more_rules),
        responses=responses,
        errors=tuple(errors),
        query=schema,
        body=body,
        headers=dict(headers or {}),
        path=dict(path or {}),
        tag=tag,
        description=description,
        streams=streams,
        since=since,
    )
    names = [each.name for each in declared.rules]
    versions = [version for each in VERSIONS if not is_newer(since, version := parse_version_string(each))]
    checks = {version: _Checks(declared.at(version)) for version in versions}

    def validated(request: falcon.Request, response: falcon.Response, params: Mapping[str, str]) -> Call:
        context: RequestContext = request.context.context_of(request.env)
        context.require(*names)
        version = request.context.version
        if version not in checks:
            raise Problem(404, f"{request.path[:300]!r} does not exist in version {version}; it is new in {since}")
        check = checks[version]
        _require_acceptable(request, declared)
        query = _query(request, check)
        if request.method == "HEAD" and "wait" in query:
            query["wait"] = 0
        call = Call(request, response, context, query, names[0], version)
        if check.declared.body is not None:
            call.body = read_body(request, check.declared.body, check.body)
        for value in params.values():
            if "\0" in value or len(value) > 255:
                raise Problem(404, f"{request.path[:300]!r} does not exist")
        given = {n: v for n in check.declared.headers if (v := request.get_header(n)) is not None}
        if given:
            require_valid(given, check.headers, "header", "The headers")
        if declared.path:
            require_valid(params, check.path, "path", "The path")
        return call

    def decorate(method: Callable[..., None]) -> Responder:
        def of_instance(request: falcon.Request, response: falcon.Response, **params: str) -> None:
            call = validated(request, response, params)
            run_with_retries(lambda: method(call, **params))

        def of_class(self: Any, request: falcon.Request, response: falcon.Response, **params: str) -> None:
            call = validated(request, response, params)
            run_with_retries(lambda: method(self, call, **params))

        responder: Responder = functools.wraps(method)(of_instance if inspect.ismethod(method) else of_class)
        responder.operation = declared  # type: ignore[attr-defined]
        return responder

    return decorate


class RequestMiddleware:
    """Falcon middleware: gives every request the policy and the limits with which the operations validate it.

    Ids with a slash, such as ``kubevirt/vm`` of a provider, come percent-encoded or plain. WSGI decodes the path, so
    the router would see two segments. It does not see the slashes of an id, but the resource does.
    """

    def __init__(
        self, context_of: Callable[[dict[str, Any]], RequestContext], max_body_bytes: int, plurals: Collection[str] = ()
    ) -> None:
        """:param plurals: the kinds of which the API has no paths below an item, except the history."""
        self._context_of = context_of
        self._max_body_bytes = max_body_bytes
        self._plurals = frozenset(plurals)

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        """Runs before routing.

        :raises Problem: see :func:`~watcher_sync.api.http.microversions.negotiate`.
        """
        request.context.context_of = self._context_of
        request.context.max_body_bytes = self._max_body_bytes
        request.context.slashed_path = None
        request.context.version = negotiate(request, response)
        prefix = _APIS if request.path.startswith(f"{_APIS}/") else ""
        root, version, plural, rest = (*request.path.removeprefix(prefix).split("/", 3), "", "", "")[:4]
        if root or version != "v1" or "/" not in rest or plural not in self._plurals:
            return
        tail = _HISTORY if rest.endswith(_HISTORY) and not prefix else ""
        entity_id = rest.removesuffix(tail)
        if "/" in entity_id:
            request.context.slashed_path = request.path
            request.path = f"{prefix}/v1/{plural}/{entity_id.replace('/', _HIDDEN_SLASH)}{tail}"

    def process_resource(
        self, request: falcon.Request, _response: falcon.Response, _resource: Any, params: dict[str, Any]
    ) -> None:
        """Runs after routing."""
        if request.context.slashed_path is not None:
            request.path = request.context.slashed_path
            params.update({name: value.replace(_HIDDEN_SLASH, "/") for name, value in params.items()})


def _require_acceptable(request: falcon.Request, declared: RestOperation) -> None:
    """:raises Problem: 406 when the request accepts none of the answers."""
    offered = [
        media for answer in declared.responses.values() if answer.schema is not None for media in answer.media_types
    ]
    if offered and request.accept != "*/*" and request.client_prefers(offered) is None:
        raise Problem(406, f"The answer can be {', '.join(dict.fromkeys(offered))}, which the request does not accept")


def _query(request: falcon.Request, check: _Checks) -> dict[str, Any]:
    declared = check.declared
    properties: dict[str, Schema] = declared.query["properties"]
    values: dict[str, Any] = {n: s["default"] for n, s in properties.items() if "default" in s}
    if not request.query_string and "required" not in declared.query:
        return values  # the defaults match the schema
    for name, text in falcon.uri.parse_query_string(request.query_string, keep_blank=True).items():
        plain, bracket, member = name.partition("[")
        schema = properties.get(plain)
        if schema is None or (bracket and (schema.get("type") != "object" or not member.endswith("]"))):
            known = ", ".join(properties) or "no parameters"
            raise bad_request("query", pointer([name[:80]]), f"{name[:80]!r} is no parameter here; there are {known}")
        texts = text if isinstance(text, list) else [text]
        if bracket:
            members = values.setdefault(plain, {})
            if isinstance(members, dict):  # else the schema refuses the text that is already there
                members[member[:-1]] = Repeated(texts)
        elif schema.get(REPEATS):
            values[name] = Repeated(texts)
        elif len(texts) > 1:
            raise bad_request("query", pointer([name]), f"{name} is given more than once")
        else:
            values[name] = _typed(texts[0], schema)
    repeated = [name for name, schema in properties.items() if REPEATS in schema or schema.get("type") == "object"]
    require_valid(values, check.query, "query", "", repeated=repeated)
    return values


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """A parameter as a request has it."""
    if isinstance(value, dict):
        for member, texts in value.items():
            yield from ((f"{name}[{member}]", text) for text in texts)
    elif isinstance(value, Repeated):
        yield from ((name, text) for text in value)
    elif isinstance(value, list):
        yield name, ",".join(value)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    else:
        yield name, str(value)


def _typed(text: str, schema: Schema) -> Any:
    """Converts a parameter to its schema's type. A text that cannot be converted stays text; the schema refuses it."""
    kind = schema.get("type")
    try:
        if kind == ["integer", "string"] and len(text) < 20 and text.isdecimal() and text.isascii():
            return int(text)
        if kind == "integer" and len(text) < 20 and text.lstrip("-").isdecimal() and text.isascii():
            return int(text)
        if kind == "number":
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text]
    except (ValueError, KeyError):
        return text
    return text.split(",") if kind == "array" else text
