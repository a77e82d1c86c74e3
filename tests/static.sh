#!/bin/sh
# Builds one static binary: `sh tests/static.sh whole|server TARGET [OPTION OF RUSTC…]`. The result is
# TARGET_DIR/TARGET/release/ta, or TARGET_DIR/TARGET/server/ta.
#
# The standard library is built with it, from the sources that come with the toolchain: the one that
# comes built brings a reader of debug information, which a stripped file has no use for (a sixth of
# the server). And all paths are told as if everything lay in one place, so that the bytes are the same
# wherever it is built.
set -eu
cd "$(dirname "$0")/.."
kind=$1 target=$2
shift 2
cargo=${CARGO:-cargo}
sh tests/target.sh "$target"
sysroot=$(rustc --print sysroot)
source=$sysroot/lib/rustlib/src/rust
if [ ! -d "$source/library" ]; then
    rustup component add rust-src >/dev/null 2>&1 || {
        echo "the sources of Rust's standard library are missing, and there is no rustup to add them" >&2
        echo "with (rustup component add rust-src): the binary is larger than it could be" >&2
    }
fi
more=
case $target in aarch64-*)
    # Rust links a static file of this architecture for one fixed address. It is made one that can lie
    # anywhere by the start code for that, which comes with the target too.
    crt=$sysroot/lib/rustlib/$target/lib/self-contained
    more=", \"-Clink-self-contained=no\", \"-Lnative=$crt\", \"-Clink-arg=$crt/rcrt1.o\""
    more="$more, \"-Clink-args=-pie --no-dynamic-linker -ztext\""
    ;;
esac
if [ "$kind" = server ]; then
    set -- --profile server --no-default-features -- "$@"
    directory=server
    case $target in x86_64*) more="$more, \"-Cllvm-args=-no-x86-call-frame-opt\"" ;; esac
else
    set -- --release -- "$@"
    directory=release
fi
if [ -d "$source/library" ]; then
    # (The variable lets a stable compiler take the options that this needs.)
    export RUSTC_BOOTSTRAP=1
    set -- -Zbuild-std=std,panic_unwind -Zbuild-std-features= "$@"
fi
remap() { printf '"--remap-path-prefix=%s=%s"' "$1" "$2"; }
flags="$(remap "$PWD" /ta), $(remap "${CARGO_HOME:-$HOME/.cargo}/registry/src" /crates), $(remap "$source" /rust)$more"
"$cargo" rustc --locked --target "$target" --bin ta \
    --config "target.$target.rustflags = [$flags]" "$@"

binary=${CARGO_TARGET_DIR:-target}/$target/$directory/ta
# What this machine can run has to start: an older musl cannot read packed relocations.
case $target in "$(uname -m)"-*) "$binary" --version >/dev/null || {
    echo "$binary does not start: it takes Rust 1.93 or later to build it" >&2
    exit 1
} ;; esac
