# SPDX-License-Identifier: Apache-2.0
"""The tests of security that need services, one module for each subject."""
