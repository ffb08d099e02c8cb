#!/bin/sh
# Installs the programs that tests need and systems may lack: curl, jq, OpenSSL and zsh for the guides, HAProxy for the deployment
# files, and in .tools what checks the OpenAPI document.
set -eu
. "$(dirname "$0")/packages.sh"

missing=
for program in curl haproxy jq openssl zsh; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -z "$missing" ] || install_packages "Tools of the tests" "$missing" "$missing" "$missing"
"$(dirname "$0")/ensure_openapi_tools.sh"
