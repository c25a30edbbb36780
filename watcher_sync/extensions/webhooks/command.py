# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage subscription``: the keys that encrypt the secrets of subscriptions."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.webhooks.secrets import SecretBox, new_key


def subscription(conf: cfg.ConfigOpts) -> None:
    """Print a new key, or encrypt the secrets with the first one."""
    if conf.command.action == "key":
        print(new_key())
        return
    box = SecretBox(conf.outlet_webhook.secret_keys)
    if not box.is_usable:
        raise ConfigError("[outlet_webhook] secret_keys is not set")
    # Imported here: a new key needs no database.
    from watcher_sync.assembly.store import open_store
    from watcher_sync.extensions.webhooks.subscriptions import Subscriptions

    store = open_store(conf)
    count = Subscriptions(store.database, store.tables).reencrypt(box.renew)
    print(f"Encrypted the secrets of {count} subscriptions.")
