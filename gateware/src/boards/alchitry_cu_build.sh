#!/bin/sh
# From the files beside this script to a bitstream for the Alchitry Cu.
set -eu
cd "$(dirname "$0")"
yosys -q -p 'read_verilog card.v; synth_ice40 -top top -json card.json'
nextpnr-ice40 --hx8k --package cb132 --json card.json --pcf card.pcf --pre-pack clocks.py --asc card.asc
icepack card.asc card.bin
