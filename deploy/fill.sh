#!/bin/sh
# Fills the files of this folder in: every @NAME@ becomes the value that the answers give for NAME.
#
#     deploy/fill.sh ANSWERS TARGET
#
# ANSWERS has lines NAME=value, as deploy/answers.example does. TARGET gets filled copies of rabbitmq/, postgresql/, redis/ and
# proxy/, readable by their owner alone, because some hold passwords. A name without a value ends it, with nothing written.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
answers=$(realpath "$1") target=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here"
for file in rabbitmq/* postgresql/* redis/* proxy/*; do
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
                if (!(name in value) || value[name] == "") {
                    print file ": no answer for " name > "/dev/stderr"
                    missing = 1
                }
                line = line substr(rest, 1, RSTART - 1) value[name]
                rest = substr(rest, RSTART + RLENGTH)
            }
            print line rest
        }
        END { exit missing }
    ' "$answers" "$file" >"$work/$file"
done
mkdir -p "$target"
cp -R "$work/." "$target/"
