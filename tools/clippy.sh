#!/bin/bash
# Compiles a crate of the workspace with clippy's lints as errors, as RUSTC_WORKSPACE_WRAPPER of a build. What it
# builds of the dependencies serves later builds, too; `cargo clippy` checks them for itself alone, which takes minutes
# for a query engine. What it builds of the workspace serves later builds with the same wrapper only.
# In bash, because dash drops variables such as CARGO_BIN_EXE_hmtt-sql.
exec clippy-driver "$@" -D warnings
