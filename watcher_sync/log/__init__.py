# SPDX-License-Identifier: Apache-2.0
"""The journal on a log that other programs read: outlets as plugins.

``base``            The contract of outlets
``formats``         The two formats of a published change
``nats_jetstream``  The driver of that name: streams of NATS JetStream
"""
