#!/bin/sh
# Puts the completions and the manual page of a `ta` below a directory, where shells and man(1) look
# for them: `sh tests/install.sh TA PREFIX/share`.
set -eu
ta=$1 share=$2
umask 022
install -d "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d" "$share/man/man1"
"$ta" completions bash >"$share/bash-completion/completions/ta"
"$ta" completions zsh >"$share/zsh/site-functions/_ta"
"$ta" completions fish >"$share/fish/vendor_completions.d/ta.fish"
"$ta" man >"$share/man/man1/ta.1"
