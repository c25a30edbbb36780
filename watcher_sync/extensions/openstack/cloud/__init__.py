# SPDX-License-Identifier: Apache-2.0
"""Authenticated access to the APIs of an OpenStack cloud.

``account``    The account that a section names, and where its cloud has each service
``client``     Authenticated access to the APIs of an OpenStack cloud, as raw JSON
``errors``     The failures of requests to an OpenStack cloud
``json``       JSON as the services of OpenStack write it
``listing``    A reconciler that only lists, for the services of OpenStack clouds
``pages``      The pages of OpenStack's lists, while entries come and go
``transport``  Limits the size of the answers of OpenStack's APIs
"""
