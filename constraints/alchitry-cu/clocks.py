# nextpnr-ice40 --pre-pack: what the clocks must reach.
ctx.addClock("ddr_clock", 100)
ctx.addClock("card.tx_clock", 125)
