// What yosys declares of the ECP5 without a function: the PLL (FPGA-TN-02200) and the output register
// with two levels a clock (FPGA-TN-02035).
`timescale 1ps / 1ps

module EHXPLLL (
    input CLKI, CLKFB,
    input PHASESEL1, PHASESEL0, PHASEDIR, PHASESTEP, PHASELOADREG,
    input STDBY, PLLWAKESYNC,
    input RST, ENCLKOP, ENCLKOS, ENCLKOS2, ENCLKOS3,
    output CLKOP, CLKOS, CLKOS2, CLKOS3,
    output LOCK, INTLOCK,
    output REFCLK, CLKINTFB
);
    parameter CLKI_DIV = 1;
    parameter CLKFB_DIV = 1;
    parameter CLKOP_DIV = 8;
    parameter CLKOS_DIV = 8;
    parameter CLKOP_ENABLE = "ENABLED";
    parameter CLKOS_ENABLE = "DISABLED";
    parameter CLKOP_CPHASE = 0;
    parameter CLKOS_CPHASE = 0;
    parameter CLKOP_FPHASE = 0;
    parameter CLKOS_FPHASE = 0;
    parameter FEEDBK_PATH = "CLKOP";
    parameter OUTDIVIDER_MUXA = "DIVA";
    parameter OUTDIVIDER_MUXB = "DIVB";
    parameter STDBY_ENABLE = "DISABLED";
    parameter DPHASE_SOURCE = "DISABLED";
    parameter PLLRST_ENA = "DISABLED";
    parameter INTFB_WAKE = "DISABLED";

    // The loop divides CLKOP by CLKFB_DIV, so the oscillator makes CLKFB_DIV * CLKOP_DIV periods of a
    // divided reference period. A phase is in oscillator periods (C) and eighths of one (F).
    pll_model #(
        .REFERENCE_DIVIDER(CLKI_DIV),
        .MULTIPLIER(CLKFB_DIV * CLKOP_DIV),
        .DIVIDER_A(CLKOP_DIV),
        .DIVIDER_B(CLKOS_DIV),
        .DELAY_B_EIGHTHS(8 * (CLKOS_CPHASE - CLKOP_CPHASE) + CLKOS_FPHASE - CLKOP_FPHASE),
        .OSCILLATOR_MIN_MHZ(400),
        .OSCILLATOR_MAX_MHZ(800),
        .DETECTOR_MIN_MHZ(10)
    ) model (.reference(CLKI), .a(CLKOP), .b(CLKOS), .lock(LOCK));

    initial #1
        if (FEEDBK_PATH != "CLKOP" || CLKFB !== CLKOP || RST !== 0 || STDBY !== 0 ||
            CLKOP_ENABLE != "ENABLED" || CLKOS_ENABLE != "ENABLED" ||
            OUTDIVIDER_MUXA != "DIVA" || OUTDIVIDER_MUXB != "DIVB") begin
            $display("EHXPLLL: the model has only feedback from CLKOP, two outputs and no reset");
            $fatal;
        end
endmodule

// Both levels are registered at the rising edge: D0 leaves at once, D1 at the falling edge.
module ODDRX1F (
    input SCLK, RST, D0, D1,
    output reg Q
);
    parameter GSR = "ENABLED";
    reg second;

    initial begin
        Q = 0;
        second = 0;
    end
    always @(posedge SCLK)
        if (RST) {Q, second} <= 2'b00;
        else {Q, second} <= {D0, D1};
    always @(negedge SCLK) Q <= second;
endmodule
