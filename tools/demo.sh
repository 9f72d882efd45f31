#!/bin/sh
# Replays recorded DDR commands through the simulated card, captures its frames with hmtt-recv over a virtual wire, and
# compares the decoded trace with the recording's truth. Then runs a program, simulates the DDR commands of its accesses, and
# does the same with them. The script starts itself again in a network namespace (and in a user namespace, so that it needs no
# root), and uses no interface of the machine. Where namespaces are not allowed, the frames go through a file instead of a
# wire; where programs cannot be traced, the second act is left out.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
bin=${HMTT_DEMO_PROGRAMS:-${CARGO_TARGET_DIR:-$here/target}/demo}
vector=${1:-$here/tests/vectors/v08_ddr1_litedram}
PATH=$PATH:/usr/sbin

if [ "${HMTT_DEMO_INSIDE:-}" = "" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # Root may lack user namespaces, others need one to create a network namespace.
    for namespaces in "--user --map-root-user --net" "--net"; do
        # shellcheck disable=SC2086 # a list of options
        if refusal=$(unshare $namespaces ip link add card type veth peer name eth1 2>&1); then
            # shellcheck disable=SC2086
            HMTT_DEMO_INSIDE=$work unshare $namespaces sh "$0" "$@"
            exit
        fi
    done
    echo "no virtual wire here (network namespaces or veth interfaces are not available: $refusal);"
    echo "the frames go through a file instead, and hmtt-recv is left out"
    transport=file
else
    work=$HMTT_DEMO_INSIDE
    transport=wire
fi

prepare_wire() {
    ip link add card type veth peer name eth1
    for end in card eth1; do
        # Nothing but the card may speak on this wire.
        echo 1 >"/proc/sys/net/ipv6/conf/$end/disable_ipv6" 2>/dev/null || :
        ip link set "$end" up
    done
}

# Captures the frames of a card in "$work/capture.pcapng". $1: the recording without its ending, $2: number of the step
over_a_wire() {
    echo "$2. hmtt-recv listens on eth1"
    : >"$work/recv.log"
    "$bin/hmtt-recv" eth1 -w "$work/capture.pcapng" --until-end -a duration:120 2>"$work/recv.log" &
    receiver=$!
    tries=0
    until grep -q '^capturing on' "$work/recv.log"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$receiver" 2>/dev/null; then
            cat "$work/recv.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo "$(($2 + 1)). the simulated card replays $(basename "$1") onto the other end of the wire"
    "$bin/hmtt-sim" replay "$1.cmd.gz" --granularity burst -i card 2>&1 | sed 's/^/   /'
    wait "$receiver" || { cat "$work/recv.log" >&2; exit 1; }
    echo "$(($2 + 2)). the output of hmtt-recv"
    sed 's/^/   /' "$work/recv.log"
}

through_a_file() {
    echo "$2. a file takes the place of the wire"
    echo "$(($2 + 1)). the simulated card replays $(basename "$1") into it"
    "$bin/hmtt-sim" replay "$1.cmd.gz" --granularity burst -o "$work/capture.pcapng" 2>&1 | sed 's/^/   /'
    echo "$(($2 + 2)). the output of hmtt info"
    "$bin/hmtt" info "$work/capture.pcapng" >"$work/info.txt" || { cat "$work/info.txt" >&2; exit 1; }
    sed 's/^/   /' "$work/info.txt"
}

# Sends the frames of a recording through the wire or file, and compares the decoded trace with the recording's truth.
# $1: the recording without its ending, $2: number of the first step, $3: whose accesses these are
act() {
    rm -f "$work/capture.pcapng" "$work/trace.txt"
    case $transport in
    wire) over_a_wire "$1" "$2" ;;
    file) through_a_file "$1" "$2" ;;
    esac
    "$bin/hmtt" decode "$work/capture.pcapng" --format text -o "$work/trace.txt"
    gzip -dc "$1.truth.gz" >"$work/truth.txt"
    echo "$(($2 + 3)). hmtt decode --format text"
    head -n 6 "$work/trace.txt" | sed 's/^/   /'
    if cmp -s "$work/trace.txt" "$work/truth.txt"; then
        lines=$(grep -vc '^#' "$work/trace.txt")
        echo "verified: $lines accesses, byte for byte those of $3"
    else
        echo "the trace differs from the truth" >&2
        diff "$work/truth.txt" "$work/trace.txt" | head -n 10 >&2
        exit 1
    fi
}

[ "$transport" = file ] || prepare_wire
act "$vector" 1 "the memory controller"

# The C locale reads no further files.
echo
echo "5. hmtt-sim record runs sort, and simulates the memory bus of a small machine"
text=$here/docs/glossary.md
if ! LC_ALL=C "$bin/hmtt-sim" record -o "$work/sort.cmd.gz" --cache l1=16K,4,64,lru --cache l2=64K,8,64,lru --cpu-ratio 16 \
    -- sort "$text" >"$work/sorted.txt" 2>"$work/record.log"; then
    cat "$work/record.log"
    if [ "$(wc -l <"$work/record.log")" -eq 1 ]; then
        echo "programs cannot be traced here; the second act is left out"
        exit
    fi
    exit 1
fi
sed 's/^/   /' "$work/record.log"
LC_ALL=C sort "$text" | cmp - "$work/sorted.txt"
act "$work/sort" 6 "the simulated memory controller"
