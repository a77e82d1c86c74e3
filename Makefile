# Thin over cargo. The two commands of the README are `make run` and `make test`.
CARGO ?= cargo
PREFIX ?= /usr/local
STATIC := x86_64-unknown-linux-musl
TARGETS := $(STATIC) aarch64-unknown-linux-musl
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: all run test lint static dist bench bench-peers install clean fuzz test-tools

all:
	$(CARGO) build --release --locked

# Starts a server on loopback with a random token and runs real commands through it.
run: all
	@sh tests/demo.sh $(TARGET)/release/ta

test: test-tools
	CARGO=$(CARGO) sh tests/suites.sh

lint:
	@sh tests/tools.sh shellcheck
	CARGO=$(CARGO) sh tests/lint.sh

# Files that run on any Linux of their architecture, with no libc and no shell: release/ta is all of
# it, server/ta the server alone.
static:
	for target in $(TARGETS); do for kind in whole server; do \
	    CARGO=$(CARGO) sh tests/static.sh $$kind $$target || exit 1; done; done

# All that a release consists of, in dist/. (tests/reproducible.sh builds it twice and compares.)
dist:
	CARGO=$(CARGO) sh tests/dist.sh

# Speed and memory of the static binary beside Codex's server, OpenSSH and bare system calls, taking
# turns in one run, with the bounds it holds itself to. `make bench ARGS=--quick`, or
# `ARGS="spawn output"` for some rows; `ARGS=before BEFORE=REVISION` takes turns with an earlier
# revision. (`make bench-peers` installs those others.)
bench:
	CARGO=$(CARGO) BEFORE=$(BEFORE) sh tests/bench.sh $(STATIC) $(ARGS)

bench-peers:
	@sh tests/tools.sh ssh sshd npm rg fdfind
	@sh tests/real.sh $(TARGET)/real codex

# Longer than the seeded requests of `make test`: coverage-guided, for SECONDS.
SECONDS ?= 600
fuzz:
	CARGO=$(CARGO) sh tests/fuzz.sh $(SECONDS)

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(TARGET)/release/ta $(DESTDIR)$(PREFIX)/bin/ta
	sh tests/install.sh $(TARGET)/release/ta $(DESTDIR)$(PREFIX)/share

clean:
	$(CARGO) clean

test-tools:
	@sh tests/tools.sh python3 ip ps stty unshare script prlimit nsenter chroot chattr strace setsid \
	    setpriv systemd-socket-activate bash zsh fish tcsh csh dash busybox git ssh sshd dropbear node npm \
	    nm strip gzip curl qemu-aarch64-static clang openssl nginx caddy stunnel4 s6-supervise runsv \
	    supervisord systemd-analyze docker-compose pip3 fdfind rg
	@sh tests/real.sh $(TARGET)/real
	@sh tests/validators.sh $(TARGET)/validators
