# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage subscription``: a new key, and the secrets encrypted again with it."""

from __future__ import annotations

from tests.functional.api.conftest import config_on
from tests.functional.client.conftest import run
from tests.functional.storage.conftest import opened
from tests.functional.storage.test_subscriptions import subscription
from tests.migrated import migrate
from watcher_sync.extensions.webhooks.secrets import ActiveSecret, SecretBox, new_key
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.testing.kinds import builtin_kinds

SECRETS = [ActiveSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]


def test_a_key_is_printed_without_a_database():
    keys = {run("watcher-sync-manage", "subscription", "key").stdout for _ in range(2)}
    assert len(keys) == 2
    for key in keys:
        box = SecretBox([key.strip()])
        assert box.open(box.seal(SECRETS)) == SECRETS


def test_secrets_are_encrypted_with_the_first_key_and_never_printed(sqlite_url, tmp_path):
    store = migrate(opened(sqlite_url, builtin_kinds()))
    rows = Subscriptions(store.database, store.tables)
    old, key = new_key(), new_key()
    rows.create(subscription("a", secrets=SecretBox([old]).seal(SECRETS)))
    rows.create(subscription("b"))

    def reencrypt(*keys):
        config = config_on(store, tmp_path)
        with config.open("a") as file:
            file.write(f"\n[outlet_webhook]\nsecret_keys = {','.join(keys)}\n")
        return run("watcher-sync-manage", "--config-file", str(config), "subscription", "reencrypt")

    refused = reencrypt(key)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert SecretBox([old]).open(rows.find("vnf", "a")[0].secrets) == SECRETS
    done = reencrypt(key, old)
    assert (done.returncode, done.stdout) == (0, "Encrypted the secrets of 1 subscriptions.\n")
    assert SecretBox([key]).open(rows.find("vnf", "a")[0].secrets) == SECRETS
    missing = reencrypt()
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "[outlet_webhook] secret_keys" in missing.stderr
    assert not any(key in each.stdout + each.stderr for each in (refused, done, missing))
    store.close()
    store.database.dispose()
