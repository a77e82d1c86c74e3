#!/bin/sh
# Sees to it that Rust's standard library is there for a target.
set -eu
target=$1
[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && exit 0
if ! command -v rustup >/dev/null 2>&1; then
    echo "the Rust target $target is missing and there is no rustup to add it with;" >&2
    echo "install your distribution's package of Rust's standard library for $target" >&2
    exit 1
fi
for attempt in 1 2 3; do
    rustup target add "$target" && exit 0
    echo "attempt $attempt to add the target $target failed" >&2
done
exit 1
