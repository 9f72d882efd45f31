// What yosys declares of the iCE40 without a function: the PLL (FPGA-TN-02052, sysCLOCK PLL of the iCE40).
`timescale 1ps / 1ps

module SB_PLL40_CORE (
    input REFERENCECLK,
    output PLLOUTCORE,
    output PLLOUTGLOBAL,
    input EXTFEEDBACK,
    input [7:0] DYNAMICDELAY,
    output LOCK,
    input BYPASS,
    input RESETB,
    input LATCHINPUTVALUE,
    output SDO,
    input SDI,
    input SCLK
);
    parameter FEEDBACK_PATH = "SIMPLE";
    parameter [3:0] DIVR = 0;
    parameter [6:0] DIVF = 0;
    parameter [2:0] DIVQ = 0;
    parameter [2:0] FILTER_RANGE = 0;

    // The oscillator runs at 533 to 1066 MHz, the phase detector at 10 MHz or more.
    pll_model #(
        .REFERENCE_DIVIDER(DIVR + 1),
        .MULTIPLIER(DIVF + 1),
        .DIVIDER_A(1 << DIVQ),
        .OSCILLATOR_MIN_MHZ(533),
        .OSCILLATOR_MAX_MHZ(1066),
        .DETECTOR_MIN_MHZ(10)
    ) model (.reference(REFERENCECLK), .a(PLLOUTGLOBAL), .lock(LOCK));
    assign PLLOUTCORE = PLLOUTGLOBAL;

    initial #1
        if (FEEDBACK_PATH != "SIMPLE" || RESETB !== 1 || BYPASS !== 0) begin
            $display("SB_PLL40_CORE: the model has neither another feedback, nor reset, nor bypass");
            $fatal;
        end
endmodule
