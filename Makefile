# Targets for a fresh Debian machine. Every target first installs the packages and tools that it needs.
.POSIX:
.PHONY: setup demo lint test test-readers test-scale test-engines formal fuzz long synth bitstream bench bench-scale bench-cluster

setup:
	@sh tools/setup.sh

# Replays a recorded vector through the simulated card, over a virtual wire, into hmtt-recv, and verifies the trace.
# Needs no root, because it runs in its own network and user namespaces. Builds only what it needs, in a profile that
# compiles quickly (Cargo.toml).
demo:
	@sh tools/setup.sh demo
	@echo "building the simulated card, hmtt-recv and hmtt"
	@cargo build --profile demo -p hmtt-sim -p hmtt-host -p hmtt-cli --bins --no-default-features \
	--features hmtt-sim/card
	@sh tools/demo.sh

# Checks format, lints and documentation. Debian's compiler has no clippy, so missing tools are skipped.
lint: setup
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; \
	else echo "skipped: format check: cargo fmt is not installed"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	cargo clippy --quiet --workspace --all-targets -- -D warnings; \
	else echo "skipped: lints: cargo clippy is not installed"; fi
	@if rustdoc --version >/dev/null 2>&1; then \
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --lib; \
	else echo "skipped: documentation: rustdoc is not installed"; fi
	@if cargo deny --version >/dev/null 2>&1; then \
	cargo deny --log-level error check bans licenses sources; \
	else echo "skipped: licences of dependencies: cargo deny is not installed"; fi

# Many tests wait, for processes and timers: there is one more at a time than there are processors. Properties are tried
# with the same inputs every time, so that a change is judged by what it does. PROPTEST_RNG_SEED=N tries others.
test: lint
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) + 1))} PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} \
	cargo test --workspace

# Reads our Parquet files with old and new versions of DuckDB, pyarrow, polars and fastparquet (tools/readers.txt), which it
# installs in target/readers: 1.7 GB. `make test` reads them with those that are there.
test-readers:
	@sh tools/setup.sh readers
	cargo test -p hmtt-cli --test suite convert::readers

# Builds the query engine, which is a workspace of its own (scale/), checks its format and lints, and tests it: among others
# against DuckDB. `make test` does not build it.
test-scale:
	@sh tools/setup.sh scale
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --manifest-path scale/Cargo.toml --all --check; \
	else echo "skipped: format check: cargo fmt is not installed"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	export RUSTC_WORKSPACE_WRAPPER="$$PWD/tools/clippy.sh"; \
	cargo test --quiet --no-run --locked --manifest-path scale/Cargo.toml --workspace --all-targets || exit 1; \
	else echo "skipped: lints: cargo clippy is not installed"; fi; \
	cargo test --locked --manifest-path scale/Cargo.toml --workspace
	@if cargo deny --version >/dev/null 2>&1; then \
	cargo deny --log-level error --manifest-path scale/Cargo.toml check --config scale/deny.toml licenses sources; \
	else echo "skipped: licences of dependencies: cargo deny is not installed"; fi

# Compares the results of docs/queries with those of Spark: with two threads, and as a cluster of two workers.
test-engines:
	@sh tools/setup.sh engines
	cargo test --locked --manifest-path scale/Cargo.toml -p hmtt-sql --test suite -- --ignored engines

# Compares the query engine with DuckDB, on ACCESSES accesses that it generates in target/bench.
ACCESSES = 100000000
bench-scale:
	@sh tools/setup.sh scale
	cargo build --quiet --release --locked --manifest-path scale/Cargo.toml -p hmtt-sql --bins --benches
	cargo bench --quiet --locked --manifest-path scale/Cargo.toml -p hmtt-sql --bench queries -- $(ACCESSES)

# Measures how queries scale with 1, 2 and 4 executors, each in a network namespace with a part of a processor, on
# CLUSTER_ACCESSES accesses of 16 boards that it generates in target/bench. Needs root, and says so elsewhere.
CLUSTER_ACCESSES = 50000000
bench-cluster:
	@sh tools/setup.sh scale
	cargo build --quiet --release --locked --manifest-path scale/Cargo.toml -p hmtt-sql -p hmtt-cluster --bins --benches
	cargo bench --quiet --locked --manifest-path scale/Cargo.toml -p hmtt-sql -p hmtt-cluster --bench executors \
	-- $(CLUSTER_ACCESSES)

# Makes all formal proofs. `make test` makes those of changed inputs.
formal: setup
	UPDATE_VERDICTS=1 cargo test -p gateware --test suite formal::

synth: setup
	cargo run --quiet -p gateware -- synth

# Builds the card's bitstream for every board. A bitstream that misses timing is an error.
bitstream: setup
	@status=0; for board in $$(ls constraints); do \
	cargo run --quiet -p gateware -- synth --bitstream --board $$board || status=1; \
	done; exit $$status

# Measures the receiver compared with tcpdump and dumpcap, decoding, forged frames, tag logs, tagged and monitored
# programs compared with other tools, traced programs, selective traces with full ones, and the simulated card. The receiver's part writes
# 10 GB to target/bench and removes them.
bench:
	@sh tools/setup.sh bench
	cargo build --quiet --release -p hmtt-sim -p hmtt-host -p hmtt-cli -p hmtt-tests --bins
	cargo run --quiet --release -p hmtt-tests --bin bench_receive
	cargo run --quiet --release -p hmtt-tests --bin bench_decode
	cargo bench --quiet -p hmtt --bench analyses
	cargo run --quiet --release -p hmtt-tests --bin bench_forged
	cargo run --quiet --release -p hmtt-tests --bin bench_tags
	cargo run --quiet --release -p hmtt-tests --bin bench_tagged
	cargo run --quiet --release -p hmtt-tests --bin bench_monitored
	cargo run --quiet --release -p hmtt-tests --bin bench_starts
	cargo run --quiet --release -p hmtt-tests --bin bench_traced
	cargo run --quiet --release -p hmtt-tests --bin bench_queue
	cargo run --quiet --release -p hmtt-tests --bin bench_selected
	cargo run --quiet --release -p hmtt-tests --bin bench

# Fuzzes for SECONDS each: random commands against a model of the pins, settings and switches against a model of the
# whole card, random inputs (frames, records, traces, captures, vectors) against models of their formats, and a hostile
# program under `hmtt tag`. Also tests forged shared memory of tags, and 10,000 captures whose frames are dropped, copied
# and moved: make fuzz SECONDS=3600 SEED=1000
SECONDS = 60
SEED = 1
fuzz: setup
	cargo run --quiet --release -p hmtt-tests --bin fuzz -- $(SECONDS) $(SEED)
	PROPTEST_CASES=100000 cargo test --quiet --release -p hmtt-probe --lib whatever_is
	PROPTEST_CASES=5000 cargo test --quiet --release -p hmtt --test suite campaign
	HMTT_FUZZ_SECONDS=$(SECONDS) HMTT_FUZZ_SEED=$(SEED) \
	cargo test --quiet --release -p hmtt-cli --test suite a_hostile_program_harms_only_itself

# Tags programs of Go RUNS times in each way; kills and ends `hmtt tag`, `hmtt monitor` and `hmtt trace` TIMES times each at
# random moments; attaches each of them ATTACHMENTS times to a server and to programs with restartable sequences; compares
# PROGRAMS random programs in a code cache with plain execution; tries all changed boards that the bench must reject, and
# makes all proofs and bitstreams again:
# make long RUNS=100 TIMES=1000 ATTACHMENTS=100 PROGRAMS=100000
RUNS = 100
TIMES = 1000
ATTACHMENTS = 100
PROGRAMS = 100000
long: setup
	HMTT_RANDOM_PROGRAMS=$(PROGRAMS) cargo test --quiet --release -p hmtt-translator --test in_process
	HMTT_LONG_INTERRUPTIONS=$(TIMES) HMTT_LONG_ATTACHMENTS=$(ATTACHMENTS) \
	cargo test --quiet --release -p hmtt-cli --test suite -- endurance sequences::
	HMTT_LONG=$(RUNS) cargo test --quiet --release -p hmtt-cli --test suite tag_go
	HMTT_LONG_BENCH=1 cargo test --quiet -p gateware --test suite board_bench
	UPDATE_VERDICTS=1 cargo test --quiet -p gateware --test suite -- formal:: bitstream:: lint::
