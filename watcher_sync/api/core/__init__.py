# SPDX-License-Identifier: Apache-2.0
"""What every resource of the API shares: operations, policy, problems, OpenAPI.

``authentication``  Authentication, as WSGI middleware: tokens of Keystone, or nobody but this machine
``etags``           Entity tags (RFC 9110, section 8.8.3): the version of what is shown
``feed``            The journal as it grows, for everybody in this process who waits for it
``healthcheck``     ``/healthcheck``: whether this API can do its work, for load balancers
``openapi``         The OpenAPI 3.1 document, written from the operations of the routes
``operation``       What an operation of the API is: declared once, checked at every request
``policies``        The policy's rules and their defaults, collected from the operations
``policy_sample``   The defaults of the policy for ``oslopolicy-sample-generator``
``problems``        Everything that goes wrong, as problem details (RFC 9457), and nothing of our inside
``request_context`` Who asks, and what the policy says to it
``schemas``         JSON Schemas (draft 2020-12) of entities, derived from their declarations
``versions``        What the API is: its versions, and the OpenAPI document
"""
