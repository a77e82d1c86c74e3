#!/bin/sh
# Builds each static binary twice from nothing, in two directories, and compares the bytes.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
for copy in one another/deeper; do
    mkdir -p "$work/$copy"
    git ls-files -z | xargs -0 cp --parents -t "$work/$copy"
done
for target in "$@"; do
    for kind in ${KINDS:-whole server}; do
        case $kind in server) directory=server ;; *) directory=release ;; esac
        for copy in one another/deeper; do
            (cd "$work/$copy" && CARGO_TARGET_DIR=target sh tests/static.sh "$kind" "$target")
            mv "$work/$copy/target/$target/$directory/ta" "$work/$copy/ta"
        done
        cmp "$work/one/ta" "$work/another/deeper/ta"
        echo "$kind $target: the same bytes twice"
    done
done
