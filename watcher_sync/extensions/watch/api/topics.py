# SPDX-License-Identifier: Apache-2.0
"""``/management/{version}/watchtopics``: watch topics in the dialect of Axway's agents.

A topic belongs to the project of the token that created it. Members of the project and administrators delete it. To
callers of other projects the topic does not exist (404), and its name is free. The path with a name means the topic of
the caller's project. If several other projects have the name, who sees them uses the id in its place. Agents put
``/apis`` before the path. The answers are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.problems import Problem, bad_request, not_found
from watcher_sync.api.http.rules import PROJECT_MEMBER, PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.exceptions import QuotaReached
from watcher_sync.extensions.watch.api import bodies
from watcher_sync.extensions.watch.model.resources import resource_kind
from watcher_sync.extensions.watch.model.topics import ANY, InvalidTopic, TopicFilter, WatchTopic, parse
from watcher_sync.extensions.watch.topic_rows import ALL, SeveralTopics, TopicExists, WatchTopics
from watcher_sync.extensions.watch.wire.topic_links import VERSIONS
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES

TAG = "watch topics"

_LIST = Rule("watchtopics:list", PROJECT_READER)
_SHOW = Rule("watchtopics:show", PROJECT_READER)
_CREATE = Rule("watchtopics:create", PROJECT_MEMBER)
_DELETE = Rule("watchtopics:delete", PROJECT_MEMBER)


class TopicStore:
    """What the resources of watch topics share."""

    def __init__(self, service: Service, new_id: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self.service = service
        self.rows = WatchTopics(service.store.database, service.tables)
        self.new_id = new_id
        self._shown = sorted((shown.group, shown.kind) for shown in map(resource_kind, service.kinds.values()))
        self.quota: int = service.conf.api.quota_watch_topics

    def require_known(self, topic: WatchTopic) -> None:
        """:raises InvalidTopic: when every filter names a group or a kind that no entity has, and so passes nothing."""
        wrong = [self._unknown(each, f"/spec/filters/{number}") for number, each in enumerate(topic.filters)]
        if wrong[0] is not None and None not in wrong:
            raise wrong[0]

    def _unknown(self, each: TopicFilter, at: str) -> InvalidTopic | None:
        """What a filter names and no entity has; None: nothing."""
        kinds = [kind for group, kind in self._shown if each.group in (ANY, group)]
        if not kinds:
            return InvalidTopic(f"{at}/group", f"there is no {each.group!r}; {_one_of(g for g, _ in self._shown)}")
        if each.kind not in (ANY, *kinds):
            return InvalidTopic(f"{at}/kind", f"there is no {each.kind!r}; {_one_of(kinds)}")
        scopes = [kind for _, kind in self._shown]
        if each.scope.kind not in (ANY, *scopes):
            return InvalidTopic(f"{at}/scope/kind", f"there is no {each.scope.kind!r}; {_one_of(scopes)}")
        return None

    def find(self, call: Call, version: str, name: str) -> WatchTopic:
        """The topic, if the policy allows the operation on it.

        :param version: the version of the dialect that the caller asks for.
        :raises Problem: 404 when there is none or the caller may not see it. 403 when it may see it and do no more. 409
            when it sees several of this name, and none is of its project.
        """
        context = call.context

        def may_see(project_id: str | None) -> bool:
            return context.may_on(call.rule, project_id) or context.may_on(_SHOW.name, project_id)

        try:
            topic = self.rows.find(name, known_version(version), project_id=context.project_id, may_see=may_see)
        except SeveralTopics as exc:
            context.require_on(call.rule, None)  # who sees several projects and does no more gets 403
            raise Problem(409, str(exc)) from None
        if topic is None:
            raise not_found(f"watch topic {name}")
        context.require_on(call.rule, topic.project_id)
        return topic


class TopicCollection:
    """``/management/{version}/watchtopics``."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self.on_get = operation(
            summary="List the watch topics, by name",
            description="Without page and pageSize the answer has all topics that the caller may see. An answer of "
            "more than about 8 MiB is refused with 400: ask for smaller pages.",
            rule=_LIST,
            query=page_parameters(store.service.max_limit),
            responses={200: Answer({"type": "array", "items": bodies.TOPIC}, "The topics")},
            errors=(404,),
            tag=TAG,
        )(self.list_topics)

    def list_topics(self, call: Call, version: str) -> None:
        """Answers with all topics or one page of them."""
        page, size = call.query.get("page"), call.query.get("pageSize")
        if size is None:
            size = ALL if page is None else min(100, self._store.service.max_limit)
        offset = ((page or 1) - 1) * size
        found = self._store.rows.page(
            offset=offset, limit=size, project_id=call.context.scope, version=known_version(version)
        )
        answer = AnswerPage(size)
        answer.add_from(found.rows, lambda topic: topic.name, WatchTopic.document, more=found.more)
        if answer.next_marker is not None and len(answer.documents) < size:
            text = f"the topics have more than {MAX_PAGE_BYTES} bytes; ask for pages of at most {len(answer.documents)}"
            raise bad_request("query", "pageSize", text)
        call.answer(answer.documents)

    @operation(
        summary="Create a watch topic",
        description=f"The body is JSON, or YAML ({', '.join(bodies.YAML)}) of at most {bodies.MAX_YAML_BYTES} bytes. "
        "The answer is 409 if the project has a topic of the name.",
        rule=_CREATE,
        body=Body({JSON: bodies.REQUEST}, default=JSON, raw=bodies.YAML),
        responses={201: Answer(bodies.TOPIC, "The topic", headers=("Location",))},
        errors=(403, 404, 409),
        tag=TAG,
    )
    def on_post(self, call: Call, version: str) -> None:
        """Creates a topic."""
        store, version = self._store, known_version(version)
        document = bodies.decoded(call)
        try:
            topic = parse(document, str(store.new_id()), project_id=call.context.project_id, version=version)
            store.require_known(topic)
        except InvalidTopic as exc:
            raise bad_request("body", exc.pointer, f"{exc.pointer or 'The body'}: {exc.reason}") from None
        try:
            made = store.rows.create(topic, quota=store.quota)
        except TopicExists:
            raise Problem(409, f"The project has a watch topic of the name {topic.name!r}") from None
        except QuotaReached as exc:
            raise Problem(403, f"Quota exceeded: {exc}", quota=exc.quota, used=exc.used) from None
        call.response.set_header("Location", call.link(made.self_link))
        call.answer(made.document(), 201)


class TopicItem:
    """``/management/{version}/watchtopics/{name}``."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store

    @operation(
        summary="Show a watch topic",
        rule=_SHOW,
        query=bodies.FIELDS,
        responses={200: Answer(bodies.TOPIC, "The topic")},
        errors=(404, 409),
        tag=TAG,
    )
    def on_get(self, call: Call, version: str, name: str) -> None:
        """Answers with the topic."""
        call.answer(bodies.picked(self._store.find(call, version, name).document(), call))

    @operation(
        summary="Delete a watch topic",
        rule=_DELETE,
        responses={204: Answer(None, "The topic is deleted")},
        errors=(403, 404, 409),
        tag=TAG,
    )
    def on_delete(self, call: Call, version: str, name: str) -> None:
        """Deletes the topic."""
        if not self._store.rows.delete(self._store.find(call, version, name).id):
            raise not_found(f"watch topic {name}")
        call.answer_nothing()


def _one_of(names: Iterable[str]) -> str:
    return f"there are {', '.join(dict.fromkeys(names))}"


def known_version(version: str) -> str:
    """:raises Problem: 404 when the dialect has no such version."""
    if version not in VERSIONS:
        raise not_found(f"version {version} of watch topics")
    return version


def page_parameters(max_limit: int) -> dict[str, schemas.Schema]:
    """The dialect's paging."""
    return {
        "page": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000, "description": "The page, from 1 on."},
        "pageSize": {
            "type": "integer",
            "minimum": 1,
            "maximum": max_limit,
            "description": "The number of entries on a page; by default 100. A page with fewer is the last one.",
        },
    }
