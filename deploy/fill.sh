#!/bin/sh
# Fills the files of this folder in: every @NAME@ becomes the value that the answers give for NAME.
#
#     deploy/fill.sh ANSWERS TARGET
#
# ANSWERS has lines NAME=value, as deploy/answers.example does. TARGET gets filled copies of rabbitmq/, postgresql/, redis/,
# proxy/ and prometheus/, readable by their owner alone, because some hold passwords. Names without a value are listed, and nothing is written.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 ANSWERS TARGET" >&2 && exit 2; }
[ -f "$1" ] || { echo "$1 does not exist: make it of deploy/answers.example" >&2 && exit 2; }
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
                if (value[name] == "" && !told[name]++) {
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
