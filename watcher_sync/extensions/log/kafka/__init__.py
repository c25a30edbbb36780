# SPDX-License-Identifier: Apache-2.0
"""The driver ``kafka``: topics of Kafka.

``outlet``  The driver, with a transactional producer
``topics``  The two topics of an outlet: the changes, and the current model
"""
