#!/bin/sh
# Fill in the files of this folder: replace every @NAME@ with the value of NAME in the answers.
#
#     deploy/fill.sh ANSWERS TARGET
#
# ANSWERS has lines NAME=value, like deploy/answers.example. The filled copies of rabbitmq/, postgresql/, redis/, proxy/ and
# prometheus/ are written to TARGET. Only their owner can read them, because some contain passwords. If names have no value, the
# script lists them and writes nothing.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 ANSWERS TARGET" >&2 && exit 2; }
[ -f "$1" ] || { echo "$1 does not exist: copy deploy/answers.example" >&2 && exit 2; }
umask 077
here=$(cd "$(dirname "$0")" && pwd)
answers=$(realpath "$1") target=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here"
whole=yes
for file in rabbitmq/* postgresql/* redis/* proxy/* prometheus/*; do
    mkdir -p "$work/$(dirname "$file")"
    awk -v file="$file" '
        NR == FNR {
            at = index($0, "=")
            if ($0 !~ /^#/ && at) value[substr($0, 1, at - 1)] = substr($0, at + 1)
            next
        }
        {
            rest = $0
            line = ""
            while (match(rest, /@[A-Z][A-Z0-9_]*@/)) {
                name = substr(rest, RSTART + 1, RLENGTH - 2)
                if (value[name] == "" && !listed[name]++) {
                    print file ": no answer for " name > "/dev/stderr"
                    missing = 1
                }
                line = line substr(rest, 1, RSTART - 1) value[name]
                rest = substr(rest, RSTART + RLENGTH)
            }
            print line rest
        }
        END { exit missing }
    ' "$answers" "$file" >"$work/$file" || whole=no
done
[ $whole = yes ] || exit 1
mkdir -p "$target"
cp -R "$work/." "$target/"
