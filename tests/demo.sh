#!/bin/sh
# `make run`: a server on this machine, and commands through it as from another one.
set -eu
ta=$1
work=$(mktemp -d)
server=
finish() {
    # The server ends everything that it has started.
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
# Also where nobody reads on (`make run | head`) or the terminal is closed.
trap 'exit 130' HUP INT PIPE TERM

TA_EXEC_TOKEN=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
export TA_EXEC_TOKEN
mkdir "$work/far"
"$ta" exec-server --port 0 --cwd "$work/far" --print-url --log-level warn >"$work/url" 2>"$work/log" &
server=$!
tries=0
until [ -s "$work/url" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then
        echo "the server did not start:" >&2
        cat "$work/log" >&2
        exit 1
    fi
    sleep 0.1
done
TA_EXEC_URL=$(cat "$work/url")
export TA_EXEC_URL

show() {
    printf '\n$ ta run'
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./:=-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    echo
    code=0
    "$ta" run "$@" || code=$?
    echo "  (exit code $code)"
}

echo "A server listens at $TA_EXEC_URL with a token that was just made up."
echo "What follows goes through it, as it would from another machine:"
show -- uname -sm
# shellcheck disable=SC2016  # expanded by the far shell
show -c 'for n in 1 2 3; do echo "line $n, as it comes"; sleep 0.3; done; echo "to stderr" >&2'
show -c 'echo "what fails says so" >&2; exit 7'
show --timeout 1s -c 'echo "this would take a minute"; sleep 61.7 & wait'
if pgrep -f '^sleep 61\.7' >/dev/null 2>&1; then
    echo "the sleep is still there: that is a bug" >&2
    exit 1
fi
echo "  (and nothing of it is left)"
printf '\n$ echo hello | ta run -i -- tr a-z A-Z\n'
echo hello | "$ta" run -i -- tr a-z A-Z

cat <<END

To go on, on the machine where commands are to run:

    TA_EXEC_TOKEN=... ta exec-server --host 0.0.0.0 --port 4200

and on yours:

    export TA_EXEC_URL=ws://that-machine:4200/exec TA_EXEC_TOKEN=...
    ta run -c 'make test'
    ta run --tty -- bash

\`ta\` is $ta here; \`make install\` puts it into your PATH, \`make static\` builds the one to copy to
other machines. docs/guide.md goes on from here, step by step; docs/protocol.md is for your own client.
END
