# SPDX-License-Identifier: Apache-2.0
"""The tests of security, one module for each subject."""
