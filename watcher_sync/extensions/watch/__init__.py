# SPDX-License-Identifier: Apache-2.0
"""The gRPC watch stream.

``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
"""
