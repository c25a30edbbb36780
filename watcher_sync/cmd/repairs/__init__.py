# SPDX-License-Identifier: Apache-2.0
"""What an operator repairs by hand, with the engines stopped.

``forgetting``  Deletes what is stored of a source that was removed
``rewind``      Sets the stored position of a source
"""
