# SPDX-License-Identifier: Apache-2.0
"""One request: its declaration, its checks, its answer. No resource.

``bodies``           The body of a request: its declaration, and its reading within the limits
``envelope``         What every request and its answer have: id, actor, log lines, headers of security
``etags``            ETag, If-Match and If-None-Match (RFC 9110)
``microversions``    The microversions of the API, and which one a request has
``openapi``          Generates the OpenAPI 3.1 document from the operations of the routes
``operation``        The declaration of a REST method, and the validation of its requests
``pages``            The documents of one page of an answer, bounded in number and bytes
``policy_files``     The policy in force: the rules, as the operator's files override them
``positions``        The position in the journal that a request names: ``epoch`` and ``as_of``
``problems``         Answers every error with problem details (RFC 9457)
``request_context``  The caller of one request, and what the policy allows it
``request_input``    The input of a request with a body: an unread rest is discarded before the answer
``routing``          HEAD on every path that has GET
``rules``            The rules of the policy: the roles of OpenStack's secure RBAC, and those of the operations
``schemas``          JSON Schemas (draft 2020-12) of entities, journal rows and pages
``validation``       Validates documents against JSON Schemas, and names the wrong fields
``versions``         ``/versions``, ``/v1`` and ``/openapi.json``
"""
