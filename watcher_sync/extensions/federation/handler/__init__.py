# SPDX-License-Identifier: Apache-2.0
"""The dialect of another watcher_sync: entities of a region become entities of a global model.

``handler``  states, deletions and listings of a region become changes
``naming``   ids, references and versions of a region's entities in this model
"""
