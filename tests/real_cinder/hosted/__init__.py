# SPDX-License-Identifier: Apache-2.0
"""Programs that run in the interpreter of the cloud.

shelves
    A volume driver without storage, with pools whose figures a test sets.
"""
