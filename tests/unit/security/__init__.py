# SPDX-License-Identifier: Apache-2.0
"""What senders and callers must not be able to do, a module for each weakness."""
