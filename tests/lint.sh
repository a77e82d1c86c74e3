#!/bin/sh
# All that can be said of the sources without running them: also that they compile for macOS, without
# the host's side, and for the fuzzer.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
"$cargo" fmt --check
"$cargo" clippy --locked --all-targets -- -D warnings
"$cargo" clippy --locked --no-default-features -- -D warnings
# (Of its own place: the flag would have everything else compiled anew.)
RUSTFLAGS="--cfg fuzzing" "$cargo" check --locked --lib --target-dir "${CARGO_TARGET_DIR:-target}/fuzzing"
shellcheck tests/*.sh remote/*.sh .ci/run
for target in aarch64-apple-darwin x86_64-apple-darwin; do
    if ! sh tests/target.sh "$target"; then
        # Outside CI that is said and left.
        [ "${CI:-}" != true ] || exit 1
        continue
    fi
    # (Nothing is linked, so the C of ring need not be compiled: there is no SDK to do it with.)
    triple=$(echo "$target" | tr - _)
    env SDKROOT=/ "CC_$triple=true" "AR_$triple=true" "$cargo" check --locked --target "$target"
    "$cargo" check --locked --target "$target" --no-default-features
done
