# SPDX-License-Identifier: Apache-2.0
"""Outlets: what hands the changes of the journal on to others.

``journal``   the journal for any number of outlets of one process
``shards``    divides the shards of an outlet among its live workers
``webhooks``  signed requests to the callback URLs of subscriptions
"""
