# SPDX-License-Identifier: Apache-2.0
"""Outlets: what hands the changes of the journal on to others.

``shards``    divides the shards of an outlet among its live workers
``watch``     the gRPC server of the watch stream
``webhooks``  signed requests to the callback URLs of subscriptions
"""
