// A PLL as a design sees it: glitches on its outputs, then clean clocks, then LOCK.
//
//                    lock time               200 ns
// reference _/~\_/~\ ......... _/~\_/~\_ ... _/~\_
// output a  _/\_/~~~\/\_ ..... _/~\_/~\_ ... _/~\_   the period and phase that the parameters give
// LOCK      __________________________ ..... /~~~~
//
// The period of the reference is measured. Dividers that the device's data sheet forbids end the
// simulation. Until it locks, a PLL sweeps its oscillator: data sheets promise neither a frequency nor a
// shortest pulse.
`timescale 1ps / 1ps

module pll_model #(
    parameter integer REFERENCE_DIVIDER = 1,
    parameter integer MULTIPLIER = 1,       // oscillator periods in a divided reference period
    parameter integer DIVIDER_A = 1,        // oscillator periods in a period of each output
    parameter integer DIVIDER_B = 1,
    parameter integer DELAY_B_EIGHTHS = 0,  // b behind a, in eighths of an oscillator period
    parameter integer OSCILLATOR_MIN_MHZ = 1,
    parameter integer OSCILLATOR_MAX_MHZ = 1000,
    parameter integer DETECTOR_MIN_MHZ = 1
) (
    input reference,
    output reg a,
    output reg b,
    output reg lock
);
    integer lock_ns, seed;
    reg clean;
    real edge_before, reference_ps, oscillator_ps;

    function integer glitch_ps(input integer unused);
        glitch_ps = 50 + {$random(seed)} % 6000;
    endfunction

    task refuse(input real mhz, input integer least, input integer most);
        if (mhz < least || mhz > most) begin
            $display("pll_model: %f MHz is not within %0d to %0d MHz", mhz, least, most);
            $fatal;
        end
    endtask

    initial begin
        a = 0;
        b = 0;
        lock = 0;
        clean = 0;
        seed = 1;
        if (!$value$plusargs("pll_lock_ns=%d", lock_ns)) lock_ns = 3000;
        @(posedge reference) edge_before = $realtime;
        @(posedge reference) reference_ps = $realtime - edge_before;
        oscillator_ps = reference_ps * REFERENCE_DIVIDER / MULTIPLIER;
        refuse(1e6 / (reference_ps * REFERENCE_DIVIDER), DETECTOR_MIN_MHZ, 1000000);
        refuse(1e6 / oscillator_ps, OSCILLATOR_MIN_MHZ, OSCILLATOR_MAX_MHZ);
        #(lock_ns * 1000);
        @(posedge reference) clean = 1;
        #200000 lock = 1;
    end

    initial while (!clean) #(glitch_ps(0)) if (!clean) a = !a;
    initial while (!clean) #(glitch_ps(0)) if (!clean) b = !b;

    always @(posedge clean) begin
        a = 0;
        #(oscillator_ps);
        forever begin
            a = 1;
            #(oscillator_ps * DIVIDER_A / 2) a = 0;
            #(oscillator_ps * DIVIDER_A / 2);
        end
    end

    always @(posedge clean) begin
        b = 0;
        #(oscillator_ps + oscillator_ps * DELAY_B_EIGHTHS / 8);
        forever begin
            b = 1;
            #(oscillator_ps * DIVIDER_B / 2) b = 0;
            #(oscillator_ps * DIVIDER_B / 2);
        end
    end
endmodule
