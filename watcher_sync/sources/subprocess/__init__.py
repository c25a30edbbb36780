# SPDX-License-Identifier: Apache-2.0
"""Drivers that live in a process of their own, beside the engine's.

``__main__`` The process of one driver; started by the engine's, with two pipes
``protocol`` What an engine and the process of one of its drivers say to each other: MessagePack
``source``   A source whose driver lives in a process of its own, as the engine sees it
"""
