# SPDX-License-Identifier: Apache-2.0
"""Events set aside, and how long rows remain.

``parking``        Parked events, which wait for an entity
``quarantine``     Lists, shows, drops and returns quarantined events
``quotas``         Limits the stored events of each source
``retention``      Deletes old rows of the journal and of other tables
``stored_events``  Converts events to and from rows of quarantined and parked events
"""
