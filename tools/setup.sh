#!/bin/sh
# Installs what building and testing need: packages from Debian, FPGA tools from PyPI into
# target/tools. `setup.sh demo` installs only what `make demo` needs, `setup.sh scale` what
# `make test-scale` needs, `setup.sh engines` also Spark, `setup.sh readers` also old and new
# readers of Parquet, `setup.sh bench` also what is measured beside this project. Quiet when all
# is there.
set -eu
purpose=${1:-all}
cd "$(dirname "$0")/.."

# Cargo marks the target folder when it creates it. By the mark backups leave the folder out, and hmtt-sim finds it for
# its models.
if [ ! -e target/CACHEDIR.TAG ]; then
    mkdir -p target
    echo "Signature: 8a477f597d28d172789f06886806bc55" >target/CACHEDIR.TAG
fi

missing=
need() { # command package
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
need cc build-essential
need ip iproute2
need unshare util-linux
if [ "$purpose" = bench ]; then
    need qemu-x86_64 qemu-user
    purpose=all
fi
readers=
if [ "$purpose" = readers ]; then
    readers=yes
    purpose=all
fi
engines=
if [ "$purpose" = engines ]; then
    need java default-jre-headless
    engines=yes
    purpose=scale
fi
if [ "$purpose" = scale ]; then
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
fi
if [ "$purpose" = all ]; then
    need yosys yosys
    need nextpnr-ice40 nextpnr-ice40
    need icepack fpga-icestorm
    need iverilog iverilog
    need verilator verilator
    need tshark tshark
    need zstd zstd
    need xz xz-utils
    need sqlite3 sqlite3
    need tcpdump tcpdump
    need setpriv util-linux
    need strace strace
    need valgrind valgrind
    need gdb gdb
    need luajit luajit
    need perf linux-perf
    need chromium-headless-shell chromium-headless-shell
    need python3 python3
    need go golang-go
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
fi

# The oldest compiler that builds the workspace, or the query engine in scale/, as its Cargo.toml states.
manifest=Cargo.toml
[ "$purpose" != scale ] || manifest=scale/Cargo.toml
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$manifest")
new_enough() { # rustc
    have=$("$1" --version 2>/dev/null | awk '{print $2}') && [ -n "$have" ] &&
        [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ]
}
if ! new_enough rustc; then
    # Debian 12 has a current compiler as rustc-web, later releases as rustc.
    missing="$missing rust"
fi
install_packages() {
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        echo "setup: missing:$missing; install them as root with apt-get install" >&2
        exit 1
    fi
    echo "setup: installing$missing"
    $as_root apt-get update -qq
    packages=
    for package in $missing; do
        if [ "$package" = rust ]; then
            for flavour in "" -web; do
                version=$(apt-cache policy "rustc$flavour" | awk '/Candidate/{print $2}')
                if [ "$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n 1)" = "$wanted" ]; then
                    package="rustc$flavour cargo$flavour"
                    for extra in "rustfmt$flavour" "rust-clippy$flavour"; do
                        if apt-cache show "$extra" >/dev/null 2>&1; then
                            package="$package $extra"
                        fi
                    done
                    break
                fi
            done
            if [ "$package" = rust ]; then
                echo "setup: Debian has no rustc $wanted or newer here; install one from rustup.rs" >&2
                exit 1
            fi
        fi
        packages="$packages $package"
    done
    # shellcheck disable=SC2086 # a list of packages
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends $packages >/dev/null
}

# Debian's yosys is older and produces slower designs, and Debian has no nextpnr for the ECP5. Without the tools from
# PyPI, bitstreams for the iCE40 are built with Debian's tools but miss timing (docs/hardware.md). cocotb loads the
# shared library of Python, on which Debian's gdb depends.
install_tools() {
    stamp=target/tools/requirements.txt
    cmp -s tools/requirements.txt "$stamp" && return
    echo "setup: installing yosys, nextpnr-ecp5 and cocotb into target/tools"
    if python3 -m venv target/tools &&
        target/tools/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt; then
        cp tools/requirements.txt "$stamp"
    else
        echo "setup: could not install from PyPI; no bitstreams for the ECP5, too slow ones for the iCE40," \
            "no simulation of boards" >&2
    fi
}

# Tools in WebAssembly are compiled when they first run, into files in the home folder. A process that has mapped such a file
# ends with a SIGBUS when another one writes it again, so each tool runs alone once. This takes a second when all are compiled.
compile_tools() {
    for tool in yosys nextpnr-ecp5 ecppack ecpunpack; do
        tool=target/tools/bin/yowasp-$tool
        [ ! -x "$tool" ] || "$tool" --version 2>&1 | sed -n 's/^Preparing to run \(.*\)\. This.*/setup: compiling \1/p'
    done
}

# What the query engine is compared with, in a folder of its own.
install_scale_tools() { # list what without
    stamp=target/scale/$1
    cmp -s "tools/$1" "$stamp" && return
    echo "setup: installing $2 into target/scale"
    if python3 -m venv target/scale &&
        target/scale/bin/pip install --quiet --disable-pip-version-check -r "tools/$1"; then
        cp "tools/$1" "$stamp"
    else
        echo "setup: could not install from PyPI; $3" >&2
    fi
}

# Versions of the libraries that read our tables, each in a folder of its own, which is complete when it has its name.
install_readers() {
    grep -v '^#' tools/readers.txt | while read -r version needs; do
        folder=target/readers/$version
        [ ! -d "$folder" ] || continue
        echo "setup: installing $version into target/readers"
        rm -rf "$folder.part"
        # shellcheck disable=SC2086 # a list of packages
        if target/tools/bin/pip install --quiet --disable-pip-version-check --no-warn-conflicts --only-binary :all: \
            --target "$folder.part" "$version" $needs; then
            mv "$folder.part" "$folder"
        else
            rm -rf "$folder.part"
            echo "setup: could not install $version; our tables are not read with it" >&2
        fi
    done
}

[ -z "$missing" ] || install_packages
[ "$purpose" != all ] || { install_tools && compile_tools; }
[ -z "$readers" ] || install_readers
[ "$purpose" != scale ] || install_scale_tools requirements-scale.txt \
    "DuckDB, Polars and servers of object stores" \
    "queries are not compared with other engines, and no object stores are tested"
[ -z "$engines" ] || install_scale_tools requirements-engines.txt Spark "queries are not compared with Spark"
