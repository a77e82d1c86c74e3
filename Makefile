# Thin over cargo. The two commands of the README are `make run` and `make test`.
CARGO ?= cargo
PREFIX ?= /usr/local
STATIC := x86_64-unknown-linux-musl
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: all run test lint static bench install clean fuzz test-tools lint-tools

all:
	$(CARGO) build --release --locked

# Starts a server on loopback with a random token and runs real commands through it.
run: all
	@sh tests/demo.sh $(TARGET)/release/ta

test: test-tools
	@sh tests/target.sh $(STATIC)
	$(CARGO) test --locked --doc
	$(CARGO) test --locked --lib --test it -- --test-threads=6

lint: lint-tools
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	shellcheck tests/*.sh .ci/run

# One file that runs on any Linux of that architecture, with no libc and no shell.
static:
	@sh tests/target.sh $(STATIC)
	$(CARGO) build --release --locked --target $(STATIC)

# Speed and memory of the static binary, each beside its bare floor in the same run, with the
# bounds it holds itself to. `make bench ARGS=--quick`, or `ARGS="spawn output"` for some rows;
# `ARGS=before BEFORE=REVISION` takes turns with an earlier revision.
bench: static
	@[ -z "$(BEFORE)" ] || CARGO=$(CARGO) sh tests/before.sh $(BEFORE) $(STATIC)
	TA_BIN=$(CURDIR)/target/$(STATIC)/release/ta $(if $(BEFORE),TA_BEFORE=$(CURDIR)/target/before/ta) \
	    $(CARGO) bench --locked --bench bench -- $(ARGS)

# Longer than the seeded requests of `make test`: coverage-guided, for SECONDS. (The variable lets
# a stable compiler take the flags that a fuzzing build needs.)
SECONDS ?= 600
fuzz:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	for target in session head; do mkdir -p tests/fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --fuzz-dir tests/fuzz $$target \
	        tests/fuzz/corpus/$$target tests/fuzz/seeds/$$target -- \
	        -max_total_time=$(SECONDS) -timeout=15 || exit 1; done

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(TARGET)/release/ta $(DESTDIR)$(PREFIX)/bin/ta

clean:
	$(CARGO) clean

test-tools:
	@sh tests/tools.sh python3 ip ps stty unshare script prlimit nsenter chroot chattr strace setsid \
	    setpriv systemd-socket-activate bash zsh fish git ssh sshd node npm fdfind rg
	@sh tests/real.sh $(TARGET)/real

lint-tools:
	@sh tests/tools.sh shellcheck
