#!/bin/sh
# Puts all that a release consists of into dist/: the binaries of each target, whole and server-only,
# as they are and gzipped; licences; completions; the manual page; checksums.
set -eu
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}
rm -rf dist
mkdir -p dist/completions
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
    sh tests/static.sh whole "$target"
    sh tests/static.sh server "$target"
    cp "$built/$target/release/ta" "dist/ta-$target"
    cp "$built/$target/server/ta" "dist/ta-server-$target"
done
for binary in dist/ta-*; do
    gzip -n -9 -k "$binary"
done
ta=$built/$(uname -m)-unknown-linux-musl/release/ta
sh tests/install.sh "$ta" dist/share
mv dist/share/bash-completion/completions/ta dist/completions/ta.bash
mv dist/share/zsh/site-functions/_ta dist/completions/_ta
mv dist/share/fish/vendor_completions.d/ta.fish dist/completions/ta.fish
mv dist/share/man/man1/ta.1 dist/ta.1
rm -r dist/share
sh tests/licences.sh >dist/LICENCES
cp LICENSE dist/
# What Rust says of its standard library and what that is made of.
library=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[ ! -f "$library" ] || cp "$library" dist/LICENCES-rust-library.html
(cd dist && find ./* -type f | LC_ALL=C sort | sed 's,^\./,,' | xargs sha256sum) >"$built/SHA256SUMS"
mv "$built/SHA256SUMS" dist/SHA256SUMS
ls -l dist
