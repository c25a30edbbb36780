# SPDX-License-Identifier: Apache-2.0
"""Makes the WSGI application of the REST API: routes, resources, middlewares.

A request passes from outside in::

    envelope (request id, logs, headers)  ->  span (with [tracing] enabled)
        ->  authentication (all paths but /healthcheck and /metrics)  ->  caller  ->  audit
        ->  trusted proxies  ->  rate limits  ->  Falcon: validation, resource

``_MIDDLEWARES`` contains the functions that wrap the application in WSGI middlewares, outermost last.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import falcon
from oslo_config import cfg
from oslo_policy import policy

from watcher_sync.api.changes.cloud_events import WritableEvents
from watcher_sync.api.edge import audit, healthcheck, late_database, metrics, proxies, rate_limits, spans
from watcher_sync.api.edge.feed import Feed
from watcher_sync.api.entities.changed_states import ChangedStateList
from watcher_sync.api.entities.differences import Diff
from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_item import EntityHistory, EntityItem
from watcher_sync.api.entities.entity_list import EntityList
from watcher_sync.api.entities.graph import GraphAround, Impact
from watcher_sync.api.entities.search import Search
from watcher_sync.api.entities.topology import Topology
from watcher_sync.api.http import envelope, openapi, problems, request_context
from watcher_sync.api.http.operation import RequestMiddleware
from watcher_sync.api.http.policy_files import Policy
from watcher_sync.api.http.request_context import ContextFactory
from watcher_sync.api.http.routing import Router
from watcher_sync.api.http.rules import rules_of
from watcher_sync.api.http.versions import LOGIN, OpenApi, Version1, Versions, release
from watcher_sync.api.identity import authentication, login
from watcher_sync.api.operator.drifts import DriftList
from watcher_sync.api.operator.engines import EngineList
from watcher_sync.api.operator.quarantine import (
    ParkedList,
    QuarantinedEvent,
    QuarantineList,
    QuarantineReasons,
    QuarantineReplay,
)
from watcher_sync.api.operator.sources import SourceItem, SourceList
from watcher_sync.api.service import Service
from watcher_sync.api.ui.login import LoginResource
from watcher_sync.api.ui.page import Root, Static, assets
from watcher_sync.assembly.sources import ConfiguredGrants
from watcher_sync.assembly.store import open_store_of_server, usable_store
from watcher_sync.commit.authorisation import Authority, Grants, with_own_sources
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.conf import keystone, opts
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.exceptions import DatabaseUnavailable, PluginConflict
from watcher_sync.extension import Api, Extension, gather
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

Wsgi = Callable[..., Iterable[bytes]]
"""A WSGI application."""

_ITEM, _HISTORY, _REST = "/{entity_id}", "/history", "/*"
"""The ends of templates: of an item, of its history, and of all paths that have no route."""

_MIDDLEWARES: tuple[Callable[[Wsgi, cfg.ConfigOpts], Wsgi], ...] = (
    rate_limits.wrap,
    proxies.wrap,
    audit.wrap,
    request_context.wrap,
    functools.partial(authentication.wrap, exempt={healthcheck.PATH: healthcheck.wrap, metrics.PATH: metrics.wrap}),
    spans.wrap,
    envelope.wrap,
)


def assemble(conf: cfg.ConfigOpts) -> Wsgi:
    """Makes the application over the store of ``[database] connection``.

    If the database is unavailable, the application answers 503 until the database answers.

    :raises ConfigError: when the configuration cannot work.
    :raises SchemaMissing: when ``db_sync`` has not been run.
    """
    if conf.api.auth_strategy == "keystone":
        keystone.require_complete(conf)
    # The configuration first: an unavailable database must not hide its mistakes.
    declared = open_store_of_server(conf, checked=False)
    rules = rules_with(conf, declared)

    def make(store: Store) -> Wsgi:
        return make_application(conf, store, ConfiguredGrants(conf), rules)

    def checked() -> Wsgi:
        store = usable_store(conf, declared, answer=conf.database.read_timeout)
        return application if store is declared else make(store)

    application = make(declared)
    try:
        return checked()
    except DatabaseUnavailable as exc:
        unavailable = _wrapped(late_database.make_unavailable(), conf)
        return late_database.LateDatabase(checked, unavailable, conf.database.retry_interval, exc)


def make_application(
    conf: cfg.ConfigOpts,
    store: Store,
    grants: Grants | None = None,
    rules: list[policy.RuleDefault] | None = None,
    extensions: Mapping[str, Extension] | None = None,
) -> Wsgi:
    """Makes the whole application.

    :param conf: the configuration, with all options registered and read.
    :param store: the store of a database with the current schema.
    :param grants: says what each source may bring, for the replay of quarantined events; None: no source is known.
    :param rules: those of all installed kinds, which the policy's files may name; None: those of the store's kinds.
    :param extensions: by name; None: the installed ones.
    :raises ConfigError: when an option has an unusable value.
    """
    return _wrapped(make_app(Service(conf, store), load_handlers(conf), grants, rules, extensions), conf)


def _wrapped(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    for wrap in _MIDDLEWARES:
        application = wrap(application, conf)
    return application


def make_app(
    service: Service,
    dispatcher: Dispatcher,
    grants: Grants | None = None,
    rules: list[policy.RuleDefault] | None = None,
    extensions: Mapping[str, Extension] | None = None,
) -> falcon.App[Any, Any]:
    """Makes the Falcon application without the WSGI middlewares."""
    routes = make_routes(service, dispatcher, grants, login.address_of(service.conf), extensions)
    rules = rules or rules_of(openapi.operations(routes))
    app = falcon.App(router=Router())
    own = {template.partition(_ITEM)[0] for template, _ in routes if template.partition(_ITEM)[2] not in ("", _HISTORY)}
    plurals = [kind.plural for kind in service.kinds.values() if f"/v1/{kind.plural}" not in own]
    context_of = ContextFactory(service.conf, rules).of_environ
    app.add_middleware(RequestMiddleware(context_of, service.conf.api.max_body_bytes, plurals))
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.default_media_type = "application/json"
    problems.install(app, dict(gather(lambda extension: extension.problems().items(), extensions)))
    for template, resource in routes:
        if template.endswith(_REST):
            app.add_sink(cast("Callable[..., None]", resource), prefix=template.removesuffix("*"))
            continue
        app.add_route(template, resource)
        if isinstance(resource, OpenApi):
            has_tokens = service.conf.api.auth_strategy == "keystone"
            resource.describe(functools.partial(openapi.document, routes, release(), tokens=has_tokens))
    return app


def make_routes(
    service: Service,
    dispatcher: Dispatcher,
    grants: Grants | None = None,
    login_address: login.KeystoneAddress | None = None,
    extensions: Mapping[str, Extension] | None = None,
) -> list[openapi.Route]:
    """Makes all resources, and returns (URI template, resource) of each.

    :param login_address: where the API's own login is judged; None: it offers none.
    :raises PluginConflict: two extensions have the same route, or one has a route of the core that is no kind's.
    """
    settings = service.conf.api
    feed = Feed(
        service.store.database,
        service.tables,
        slots=settings.max_streams,
        slots_per_identity=settings.max_streams_per_identity,
        interval=service.conf.database.journal_poll_interval,
        rates=rate_limits.TokenBuckets(settings.stream_rate, settings.stream_burst),
    )
    engine = service.conf.engine
    writer = DirectWriter(
        service.store,
        dispatcher,
        limits=engine,
        authority=Authority(dispatcher, with_own_sources(grants)),
    )
    files = assets()
    versions = Versions(service.kinds, has_login=login_address is not None)
    routes: list[openapi.Route] = [
        ("/", Root(files, versions)),
        ("/static/{name}", Static(files)),
        ("/versions", versions),
        ("/v1", Version1(service.kinds, has_login=login_address is not None)),
        (LOGIN, LoginResource(service, login_address)),
        ("/openapi.json", OpenApi()),
        ("/v1/states", ChangedStateList(service)),
        ("/v1/events", WritableEvents(service, feed, writer, dispatcher)),
        ("/v1/sources", SourceList(service)),
        ("/v1/sources/{name}", SourceItem(service)),
        ("/v1/engines", EngineList(service)),
        ("/v1/search", Search(service)),
        ("/v1/diff", Diff(service)),
        ("/v1/topology", Topology(service)),
        ("/v1/graph", GraphAround(service)),
        ("/v1/impact", Impact(service)),
        ("/v1/drifts", DriftList(service)),
        ("/v1/parked", ParkedList(service)),
        ("/v1/quarantine", QuarantineList(service)),
        ("/v1/quarantine_reasons", QuarantineReasons(service)),
        ("/v1/quarantine/{event_id}", QuarantinedEvent(service)),
        ("/v1/quarantine/{event_id}/replay", QuarantineReplay(service, writer)),
    ]
    of_kinds: dict[str, object] = {}
    for kind in service.kinds.values():
        collection, path = Collection(service, kind), f"/v1/{kind.plural}"
        of_kinds |= {path: EntityList(collection), f"{path}{_ITEM}": EntityItem(collection)}
        routes.append((f"{path}{_ITEM}{_HISTORY}", EntityHistory(collection)))
    api = Api(service=service, writer=writer, dispatcher=dispatcher, feed=feed)
    trial = falcon.App(router=Router())
    for template, resource in (*routes, *of_kinds.items()):
        trial.add_route(template, resource)
    accepted = list(routes)
    more = gather(lambda extension: _checked(trial, accepted, extension.routes(api)), extensions)
    twice = [template for template, count in Counter(template for template, _ in (*routes, *more)).items() if count > 1]
    if twice:
        raise PluginConflict(f"two extensions, or one and the core, have the route {twice[0]}")
    return [*routes, *(of_kinds | dict(more)).items()]


def _checked(
    trial: falcon.App[Any, Any], accepted: list[openapi.Route], brought: Iterable[openapi.Route]
) -> list[openapi.Route]:
    """The routes of an extension, if the API can serve and describe them.

    :param trial: has the routes so far; it serves no request.
    :param accepted: what the rules of the routes may not contradict; these routes are added.
    :raises TypeError: a template, a resource or a rule cannot be used; names it.
    :raises ValueError: a template is wrong, or conflicts with another one.
    """
    routes = list(brought)
    rules_of(openapi.operations([*accepted, *routes]))
    for template, resource in routes:
        if not template.startswith("/"):
            raise TypeError(f"the URI template {template!r} does not begin with /")
        if not template.endswith(_REST):
            trial.add_route(template, resource)
    accepted.extend(routes)
    return routes


def rules_with(conf: cfg.ConfigOpts, store: Store) -> list[policy.RuleDefault]:
    """The rules of the policy with the kinds of a store and the handlers of a configuration."""
    return rules_of(openapi.operations(make_routes(Service(conf, store), load_handlers(conf))))


def check_policy(conf: cfg.ConfigOpts) -> None:
    """Check the files of the policy. It contacts nothing.

    :raises ConfigError: one is unusable, or has a mistake.
    """
    store = open_store_of_server(conf, checked=False)
    try:
        Policy(conf, rules_with(conf, store))
    finally:
        store.dispose()


def installed_routes() -> list[openapi.Route]:
    """Makes the resources of the installed kinds in the default configuration, to describe them.

    They are those of an application on an empty database, which serves no request.
    """
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", "sqlite://", group="database")
    store = Store(database.open_database(conf), load_kinds())
    try:
        return make_routes(Service(conf, store), load_handlers(conf))
    finally:
        store.close()


def list_rules() -> list[policy.RuleDefault]:
    """The rules of the installed kinds, for ``oslopolicy-sample-generator``."""
    return rules_of(openapi.operations(installed_routes()))
