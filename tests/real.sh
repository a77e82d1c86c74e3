#!/bin/sh
# Installs real programs, once: from the npm registry into directories that begin with the given one
# (MCP and language servers and their real clients, two versions of the agent pi with a Node that is
# new enough, and Codex; `real.sh DIRECTORY codex`: Codex alone), from PyPI what reads metrics. Where
# that cannot be done it says so; in CI that is a failure.
set -eu

# What is to be in a directory, which then says so in a file.
put() {
    into=$1
    shift
    packages=$(printf '%s\n' "$@")
    [ "$(cat "$into/packages" 2>/dev/null)" != "$packages" ] || return 0
    rm -rf "$into"
    mkdir -p "$into"
    echo "installing $*"
    if command -v npm >/dev/null 2>&1 &&
        npm install --prefix "$into" --no-save --no-package-lock --no-audit --no-fund \
            --ignore-scripts --loglevel=error "$@" >"$into/log" 2>&1; then
        echo "$packages" >"$into/packages"
        return 0
    fi
    echo "missing: $*; npm says:" >&2
    tail -n 5 "$into/log" >&2 2>/dev/null || echo "(npm is not installed)" >&2
    # Outside CI what needs them is skipped by name; in CI nothing is.
    [ "${CI:-}" != true ]
}

case $(uname -m) in
    aarch64) arch=arm64 ;;
    *) arch=x64 ;;
esac

# (Codex for this machine alone, without the launcher: what runs is the program itself.)
put "$1-codex" "codex@npm:@openai/codex@0.171.0-linux-$arch"
[ "${2:-all}" = all ] || exit 0

put "$1" @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/inspector@2.12.0 \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 typescript-language-server@4.4.0 \
    typescript@5.9.3 vscode-jsonrpc@8.2.1
put "$1-pi-1.6" @earendil-works/pi-coding-agent@1.6.0 @types/node@22.19.19 "node-linux-$arch@24.22.1"
put "$1-pi-0.74" @earendil-works/pi-coding-agent@0.74.2

modules='prometheus_client==0.21.0'
if [ "$(cat "$1-python/packages" 2>/dev/null)" != "$modules" ]; then
    rm -rf "$1-python"
    mkdir -p "$1-python"
    echo "installing $modules"
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$1-python" "$modules" >"$1-python/log" 2>&1; then
        echo "$modules" >"$1-python/packages"
    else
        echo "missing: Prometheus' library for Python; pip says:" >&2
        tail -n 5 "$1-python/log" >&2
        [ "${CI:-}" != true ]
    fi
fi
