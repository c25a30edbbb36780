# SPDX-License-Identifier: Apache-2.0
"""The dialect of another watcher_sync: entities of a region become entities of a global model.

``handler``  states, deletions and listings of a region become changes
``leading``  versions of a region whose database went back in time
``naming``   prefixes ids, and the fields that refer to other entities
"""
