# SPDX-License-Identifier: Apache-2.0
"""How the release notes are built; see the tox environment releasenotes."""

project = "watcher_sync release notes"
author = "The watcher_sync authors"
copyright = author
release = version = ""
extensions = ["reno.sphinxext"]
html_theme = "furo"
html_title = project
