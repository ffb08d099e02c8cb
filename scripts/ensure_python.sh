#!/bin/sh
# Prints the path of a Python 3.11 or newer that can make virtual environments; installs the system's when there is none.
# PYTHON names one to use instead.
set -eu
. "$(dirname "$0")/packages.sh"

usable() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if usable "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

find_python || {
    install_packages "Python 3.11 or newer with venv" "python3 python3-venv" "python3 python3-pip" "python"
    find_python || {
        say "This system's own Python is older than 3.11: install a newer one and name it, PYTHON=/path/to/python3."
        exit 1
    }
}
