# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what the policy lets them see.

``authentication``  WSGI middleware: tokens of Keystone, or requests from the loopback interface only
``keystone``        Checks tokens with keystonemiddleware, and answers 503 while Keystone is unavailable
``login``           Gets a token from Keystone with the name and the password of a user
``visibility``      What of the model one caller sees: its project, without the fields that tell of hosts
"""
