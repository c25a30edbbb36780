# SPDX-License-Identifier: Apache-2.0
"""An example of a reconciler: it finds what the events of racks lost."""
