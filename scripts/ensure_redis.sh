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

install_server "$service" "Redis" "$package" "$name" "redis"
present || {
    say "Redis was installed, but neither redis-server nor valkey-server was found."
    exit 1
}
