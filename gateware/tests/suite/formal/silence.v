// When a heartbeat is due: at once where the DDR clock was lost or found, after silence, and at no other time.
//
// A tick has 2^`TICK_LOG2 clocks here. The Tx thread may take a heartbeat that is due on any clock, and frames may end on
// any clock.

module check(input lost, input sent, input takes);
    wire due;
    wire taken = takes && due;
    heartbeat heartbeat(.clock(3'b001), .lost(lost), .beat$sent(sent), .beat$due(due), .beat$taken(taken), .beat$step(1'b0));

    // Ticks are not those of the silence: the first one may be cut short. A frame counts four clocks after its end.
    localparam LEAST = (`SILENCE_TICKS - 1) << `TICK_LOG2;
    localparam MOST = (`SILENCE_TICKS << `TICK_LOG2) + 4;
    reg was_lost = 0, changed = 0, was_due = 0, was_taken = 0;
    reg [2:0] ended = 0;
    reg [9:0] silence = 0;
    always @($global_clock) begin
        was_lost <= lost;
        changed <= lost != was_lost;
        was_due <= due;
        was_taken <= taken;
        ended <= {ended, sent};
        if (silence != 1023) silence <= silence + 1;
        if (taken || ended[2]) silence <= 0;
    end
    always @(*) begin
        if (changed) at_once: assert(due);
        if (was_due && !was_taken) stays: assert(due);
        if (due && (!was_due || was_taken)) has_a_reason: assert(changed || silence >= LEAST);
        ends_silence: assert(due || silence <= MOST);
    end
endmodule
