#!/bin/sh
# Installs the programs that tests need and systems may lack: curl, jq, OpenSSL and zsh for the guides, HAProxy for the deployment
# files, PgBouncer, a browser for the console, and in .tools what checks the OpenAPI document.
set -eu
. "$(dirname "$0")/packages.sh"

missing=
for program in curl haproxy jq openssl zsh; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -z "$missing" ] || install_packages "Tools of the tests" "$missing" "$missing" "$missing"
PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v pgbouncer >/dev/null 2>&1 ||
    install_server pgbouncer "PgBouncer for the tests" pgbouncer pgbouncer pgbouncer
for program in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v "$program" >/dev/null 2>&1 && browser=$program
done
[ -n "${browser:-}" ] ||
    install_packages "A browser for the tests of the console" chromium-headless-shell chromium chromium
"$(dirname "$0")/ensure_openapi_tools.sh"
