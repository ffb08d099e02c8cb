#!/bin/sh
# Installs the programs that the tests of the guides need: curl, jq, and zsh beside the shells that every system has.
set -eu
. "$(dirname "$0")/packages.sh"

missing=
for program in curl jq zsh; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -z "$missing" ] || install_packages "Tools of the tests" "$missing" "$missing" "$missing"
