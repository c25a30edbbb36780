# SPDX-License-Identifier: Apache-2.0
"""Options, one module per group. Each has ``register_opts(conf)`` and ``list_opts()``; nothing is
registered when a module is imported, and the configuration object is passed to whoever needs it."""
