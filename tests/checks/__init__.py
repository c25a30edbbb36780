# SPDX-License-Identifier: Apache-2.0
"""Checks of the text in this repository. ``python -m tests.checks`` runs those that need no commit.

==================  ==========================================================================
``banned_words``    the words and phrases that the project does not use
``sentences``       splits documentation text into sentences and counts words
``python_text``     finds comments, docstrings and messages in Python source
``document_text``   finds the text of reStructuredText, YAML and other files
``prose``           applies the rules to every file and prints what violates them
``size``            counts code lines by room, and what a commit adds and removes
``waits``           finds waits of tests that a busy machine would make fail
``commit_message``  checks the form of commit messages, as a hook or for a range of commits
==================  ==========================================================================
"""
