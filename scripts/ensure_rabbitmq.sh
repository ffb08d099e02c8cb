#!/bin/sh
# Installs RabbitMQ's server when it is missing. Only its programs are needed, so the system-wide service that some packages
# start is left off.
set -eu
. "$(dirname "$0")/packages.sh"

python=$1

present() {
    "$python" -c 'from gridfleet.kernel.broker.installation import find_installation; find_installation()' >/dev/null 2>&1
}

present && exit 0

if [ -d /run/systemd/system ] && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; }; then
    as_root systemctl mask --quiet rabbitmq-server 2>/dev/null || true
    unmask() {
        as_root systemctl disable --quiet rabbitmq-server 2>/dev/null || true
        as_root systemctl unmask --quiet rabbitmq-server 2>/dev/null || true
    }
    trap unmask EXIT
fi
install_packages "RabbitMQ" "rabbitmq-server" "rabbitmq-server" "rabbitmq"
if [ ! -d /run/systemd/system ] && [ -x /etc/init.d/rabbitmq-server ]; then
    as_root /etc/init.d/rabbitmq-server stop >/dev/null 2>&1 || true
fi
present || {
    say "RabbitMQ was installed, but its rabbitmq-server script was not found."
    say "Point GRIDFLEET_BROKER_URL and GRIDFLEET_BROKER_MANAGEMENT_URL to a running RabbitMQ instead."
    exit 1
}
