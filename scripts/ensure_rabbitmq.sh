#!/bin/sh
# Installs RabbitMQ's server when it is missing. Only its programs are needed, so the system-wide service that some packages
# start is left off.
set -eu
. "$(dirname "$0")/packages.sh"

python=$1

present() {
    "$python" -c 'from gridfleet.local.broker.installation import find_installation; find_installation()' >/dev/null 2>&1
}

present && exit 0

install_server rabbitmq-server "RabbitMQ" "rabbitmq-server" "rabbitmq-server" "rabbitmq"
present || {
    say "RabbitMQ was installed, but its rabbitmq-server script was not found."
    say "Point GRIDFLEET_BROKER_URL and GRIDFLEET_BROKER_MANAGEMENT_URL to a running RabbitMQ instead."
    exit 1
}
