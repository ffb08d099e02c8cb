# Sourced: install system packages, as root or through sudo, or say what to do.

say() { printf '%s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# install_packages WHAT APT_PACKAGES DNF_PACKAGES BREW_PACKAGES
install_packages() {
    what=$1 apt=$2 dnf=$3 brew=$4
    if command -v apt-get >/dev/null 2>&1; then
        command="apt-get install -y $apt"
    elif command -v dnf >/dev/null 2>&1; then
        command="dnf install -y $dnf"
    elif command -v brew >/dev/null 2>&1; then
        say "Installing $what: brew install $brew"
        # shellcheck disable=SC2086 # a list of words
        brew install $brew >&2
        return
    else
        say "$what is missing and this system's package manager is not known here."
        say "Install it by hand, then run the same command again."
        return 1
    fi
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
        say "$what is missing, and without root or sudo it cannot be installed from here."
        say "As root, run:  $command"
        say "Then run the same command again."
        return 1
    fi
    say "Installing $what: $command"
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list of words
    if [ "${command%% *}" = apt-get ]; then
        as_root apt-get update -q >"$log" 2>&1 &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $apt >>"$log" 2>&1
    else
        as_root $command >"$log" 2>&1
    fi || {
        cat "$log" >&2
        rm -f "$log"
        say "That did not work. Once it does, run the same command again."
        return 1
    }
    rm -f "$log"
}

# install_server SERVICE WHAT APT_PACKAGES DNF_PACKAGES BREW_PACKAGES
# As install_packages, for a package whose service is not wanted: it is neither started, with the port mapper that RabbitMQ's
# would leave behind on all addresses, nor enabled.
install_server() {
    service=$1
    shift
    policy=/usr/sbin/policy-rc.d
    if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; } &&
        { [ ! -e "$policy" ] || grep -q "^# gridfleet$" "$policy"; } # an earlier run was killed
    then
        trap 'as_root rm -f "$policy"' EXIT
        # A signal that ends a shell skips the trap of its end.
        trap 'exit 129' HUP
        trap 'exit 130' INT
        trap 'exit 143' TERM
        printf '#!/bin/sh\n# gridfleet\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
        keeps_policy=
    else
        keeps_policy=yes
    fi
    install_packages "$@" || return 1
    if [ -z "$keeps_policy" ]; then
        as_root rm -f "$policy"
        trap - EXIT HUP INT TERM
    fi
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --quiet "$service" 2>/dev/null || true
    fi
}
