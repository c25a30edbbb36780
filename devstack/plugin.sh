#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# DevStack plugin of watcher_sync: the engine reads the notifications of this DevStack's Nova, and the API is in the
# service catalog. In local.conf:
#
#   [[local|localrc]]
#   enable_plugin watcher-sync URL_OF_THE_REPOSITORY
#
# DevStack sources this file with the mode ("stack", "unstack" or "clean") and the phase as arguments. See
# https://docs.openstack.org/devstack/latest/plugins.html.

# Save trace setting
_XTRACE_WATCHER_SYNC=$(set +o | grep xtrace)
set +o xtrace

function is_watcher_sync_enabled {
    [[ ,${ENABLED_SERVICES} =~ ,"watcher-sync-" ]]
}

function install_watcher_sync {
    setup_develop "$WATCHER_SYNC_DIR"
    pip_install "gunicorn>=25"
}

# Nova hides these notifications by default; without them the model misses changes.
function configure_nova_for_watcher_sync {
    iniset "$NOVA_CONF" notifications notification_format versioned
    iniset "$NOVA_CONF" notifications notify_on_state_change vm_and_task_state
    iniset "$NOVA_CONF" oslo_messaging_notifications driver messagingv2
}

function configure_watcher_sync {
    sudo install -d -o "$STACK_USER" -m 0750 "$WATCHER_SYNC_CONF_DIR" "$WATCHER_SYNC_STATE_PATH"
    rm -f "$WATCHER_SYNC_CONF"
    install -m 0640 /dev/null "$WATCHER_SYNC_CONF"
    iniset "$WATCHER_SYNC_CONF" DEFAULT debug "$ENABLE_DEBUG_LOG_LEVEL"
    iniset "$WATCHER_SYNC_CONF" DEFAULT state_path "$WATCHER_SYNC_STATE_PATH"
    iniset "$WATCHER_SYNC_CONF" database connection "$(database_connection_url watcher_sync)"
    iniset "$WATCHER_SYNC_CONF" engine enabled_sources nova
    iniset "$WATCHER_SYNC_CONF" source_nova driver rabbitmq
    iniset "$WATCHER_SYNC_CONF" source_nova transport_url "$(get_notification_url)"
    iniset "$WATCHER_SYNC_CONF" source_nova exchange nova
    iniset "$WATCHER_SYNC_CONF" source_nova topics versioned_notifications
    iniset "$WATCHER_SYNC_CONF" source_nova pool watcher-sync
    iniset "$WATCHER_SYNC_CONF" monitoring port "$WATCHER_SYNC_MONITORING_PORT"
    iniset "$WATCHER_SYNC_CONF" api auth_strategy keystone
    configure_keystone_authtoken_middleware "$WATCHER_SYNC_CONF" watcher-sync
    iniset "$WATCHER_SYNC_CONF" reconcile_nova enabled True
    local option
    for option in auth_url:"$KEYSTONE_SERVICE_URI" auth_type:password username:watcher-sync \
        password:"$SERVICE_PASSWORD" user_domain_name:"$SERVICE_DOMAIN_NAME" \
        project_name:"$SERVICE_PROJECT_NAME" project_domain_name:"$SERVICE_DOMAIN_NAME"; do
        iniset "$WATCHER_SYNC_CONF" reconcile_nova "${option%%:*}" "${option#*:}"
    done
}

function create_watcher_sync_accounts {
    create_service_user watcher-sync admin
    get_or_create_service watcher-sync watcher-sync "Live model of the cloud"
    get_or_create_endpoint watcher-sync "$REGION_NAME" "http://$SERVICE_HOST:$WATCHER_SYNC_PORT"
}

function init_watcher_sync {
    recreate_database watcher_sync
    "$WATCHER_SYNC_BIN_DIR/watcher-sync-manage" --config-file "$WATCHER_SYNC_CONF" db_sync
}

# Without the proxy that production needs: only its developer uses a DevStack.
function start_watcher_sync {
    run_process watcher-sync-engine \
        "$WATCHER_SYNC_BIN_DIR/watcher-sync-engine --config-file $WATCHER_SYNC_CONF"
    run_process watcher-sync-api \
        "$WATCHER_SYNC_BIN_DIR/gunicorn --config python:watcher_sync.wsgi.gunicorn \
--bind $SERVICE_LISTEN_ADDRESS:$WATCHER_SYNC_PORT watcher_sync.wsgi.api:application" \
        "" "" "OS_WATCHER_SYNC_CONFIG_FILES=$WATCHER_SYNC_CONF"
    if ! wait_for_service "$SERVICE_TIMEOUT" "http://$SERVICE_HOST:$WATCHER_SYNC_PORT/versions"; then
        die $LINENO "watcher-sync-api did not start"
    fi
}

function stop_watcher_sync {
    stop_process watcher-sync-api
    stop_process watcher-sync-engine
}

function cleanup_watcher_sync {
    sudo rm -rf "$WATCHER_SYNC_CONF_DIR" "$WATCHER_SYNC_STATE_PATH"
}

WATCHER_SYNC_BIN_DIR=$(get_python_exec_prefix)

if is_watcher_sync_enabled; then
    if [[ "$1" == "stack" && "$2" == "install" ]]; then
        echo_summary "Installing watcher_sync"
        install_watcher_sync
    elif [[ "$1" == "stack" && "$2" == "post-config" ]]; then
        echo_summary "Configuring watcher_sync"
        configure_nova_for_watcher_sync
        configure_watcher_sync
        create_watcher_sync_accounts
        init_watcher_sync
    elif [[ "$1" == "stack" && "$2" == "extra" ]]; then
        echo_summary "Starting watcher_sync"
        start_watcher_sync
    fi

    if [[ "$1" == "unstack" ]]; then
        stop_watcher_sync
    fi

    if [[ "$1" == "clean" ]]; then
        cleanup_watcher_sync
    fi
fi

# Restore xtrace
$_XTRACE_WATCHER_SYNC
