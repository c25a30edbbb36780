# SPDX-License-Identifier: Apache-2.0
"""Watch topics, and what they show of the journal: pure functions and immutable structs.

``filters``    An index over the filters of any number of topics
``resources``  A journal row as the change of a resource: group, kind, name, scope, attributes
``topics``     Watch topics: their JSON form, and its validation
"""
