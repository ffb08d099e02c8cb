#!/bin/sh
# Installs what checks the OpenAPI document into .tools: two linters, two client generators, and the Node.js that they need.
# Both lock files have hashes; nothing of the system changes.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

locks=$(cat tests/openapi/requirements.lock tests/openapi/package-lock.json | cksum)
[ "$(cat .tools/installed 2>/dev/null)" = "$locks" ] && exit 0
say "Installing the programs that check the OpenAPI document into .tools"
.venv/bin/python -m venv --clear .tools
.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/openapi/requirements.lock
cp tests/openapi/package.json tests/openapi/package-lock.json .tools/
PATH="$PWD/.tools/bin:$PATH" .tools/bin/npm ci --prefix .tools --ignore-scripts --no-audit --no-fund --loglevel=error
echo "$locks" >.tools/installed
