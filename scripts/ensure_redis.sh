#!/bin/sh
# Installs Redis, or Valkey where that is what the system has, when neither is there: for the tests. Only the program is
# needed, so the system-wide service that packages start is left off.
set -eu
. "$(dirname "$0")/packages.sh"

present() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v redis-server >/dev/null 2>&1 ||
        PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v valkey-server >/dev/null 2>&1
}

present && exit 0

name=redis
package=redis-server
if command -v apt-get >/dev/null 2>&1; then
    # The newer ones of Debian's relatives have Valkey alone.
    apt-cache show redis-server >/dev/null 2>&1 || { apt-cache show valkey-server >/dev/null 2>&1 && package=valkey-server; }
elif command -v dnf >/dev/null 2>&1; then
    dnf -q info redis >/dev/null 2>&1 || name=valkey
fi
service=$package
command -v apt-get >/dev/null 2>&1 || service=$name

if [ -d /run/systemd/system ] && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; }; then
    as_root systemctl mask --quiet "$service" 2>/dev/null || true
    unmask() {
        as_root systemctl disable --quiet "$service" 2>/dev/null || true
        as_root systemctl unmask --quiet "$service" 2>/dev/null || true
    }
    trap unmask EXIT
fi
install_packages "Redis" "$package" "$name" "redis"
if [ ! -d /run/systemd/system ] && [ -x "/etc/init.d/$service" ]; then
    as_root "/etc/init.d/$service" stop >/dev/null 2>&1 || true
fi
present || {
    say "Redis was installed, but neither redis-server nor valkey-server was found."
    exit 1
}
