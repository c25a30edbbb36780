# SPDX-License-Identifier: Apache-2.0
"""The capacity of hosts, from capacity providers.

``nova``        The provider of Nova's list of hypervisors
``placement``   The provider of Placement: inventories and usages of resource providers
``providers``   Loads the enabled providers
``reconciler``  Writes what the providers report
``static``      The provider of a YAML file
``writer``      Whose value counts, writes the capacity of hosts, and finds the values that cannot be stored
"""
