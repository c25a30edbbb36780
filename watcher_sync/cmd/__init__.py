# SPDX-License-Identifier: Apache-2.0
"""One module per executable.

oslo.service brings eventlet along and futurist imports it when it is there. Nothing here is ever
monkey-patched, so eventlet's notice of its own deprecation is no operator's concern.
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
