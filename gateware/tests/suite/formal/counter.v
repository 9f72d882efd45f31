// The frame counter: one more after each frame, in all 40 bits, three clocks after the frame or earlier.
//
// Frames end four clocks apart or more. The counter starts at `START.

module check(input sends);
    reg [2:0] since = 7;    // clocks since a frame
    wire step = sends && since > 3;
    reg [39:0] count = `START;
    always @($global_clock) begin
        if (step) since <= 1;
        else if (since != 7) since <= since + 1;
        if (step) count <= count + 1;
    end
    wire [15:0] low, mid;
    wire [7:0] high;
    wire low_full, mid_step, mid_full, high_step;
    top dut(
        .clock(3'b001), .step(step), .high(high), .mid(mid), .low(low),
        .inner({low_full, mid_step, mid_full, high_step})
    );
    always @(*) if (since >= 3) counts: assert({high, mid, low} == count);

`ifdef LEMMAS
    wire [39:0] before = count - 1;
    always @(*) begin
        assert(since != 0);
        assert(low == count[15:0]);
        assert(low_full == ((since == 1 ? before[15:0] : count[15:0]) == 16'hffff));
        assert(mid_step == (since == 1 && count[15:0] == 0));
        assert(mid == (since == 1 ? before[31:16] : count[31:16]));
        assert(mid_full == ((since <= 2 ? before[31:16] : count[31:16]) == 16'hffff));
        assert(high_step == (since == 2 && count[31:0] == 0));
        assert(high == (since <= 2 ? before[39:32] : count[39:32]));
    end
`endif
endmodule
