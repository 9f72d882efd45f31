# What this project can do from a fresh Debian machine. `make demo` and `make test` set up what they
# need by themselves.
.POSIX:
.PHONY: setup demo test synth bench

setup:
	@sh tools/setup.sh

# A recorded vector through the simulated card, over a virtual wire, into hmtt-recv, and verified.
# Needs no root: it runs in network and user namespaces of its own.
demo: setup
	@cargo build --quiet -p hmtt-sim -p hmtt-host --bins
	@sh tools/demo.sh

test: setup
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	cargo test --workspace

synth: setup
	cargo run --quiet -p gateware -- synth

bench: setup
	cargo build --quiet --release -p hmtt-sim
	cargo run --quiet --release -p hmtt-tests --bin bench
