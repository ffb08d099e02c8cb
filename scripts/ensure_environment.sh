#!/bin/sh
# Makes .venv and installs exactly what the given lock file names, then Gridfleet itself in place.
set -eu
lock=$1
here=$(dirname "$0")
. "$here/packages.sh"

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 ||
    ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$("$here/ensure_python.sh")
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
echo "Installing $lock"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" || {
    say "The Python packages could not be installed. Is their index reached from here? Behind a proxy set https_proxy; an index of"
    say "your own goes into PIP_INDEX_URL. Then run the same command again."
    exit 1
}
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
