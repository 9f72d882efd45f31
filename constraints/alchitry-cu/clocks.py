# nextpnr-ice40 --pre-pack: what the clocks must reach.
ctx.addClock("ddr_clock", 100)
ctx.addClock("tx_clock", 125)
