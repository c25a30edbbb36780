# SPDX-License-Identifier: Apache-2.0
"""Outlets: what hands the changes of the journal on to others.

``watch``  the gRPC server of the watch stream
"""
