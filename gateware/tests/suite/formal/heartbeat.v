// What a heartbeat says: its header, whether the DDR clock runs, how often it was lost, and the transmit clock at which the
// Tx thread took it.
//
// The Tx thread takes a heartbeat that is due and steps through its five groups, and once more behind them, four clocks
// apart or more. The clock starts at `START.
// The lemmas make the assertions inductive: together they hold after a clock if they held before it.

module check(input lost, input sent, input takes);
    wire due;
    reg open = 0;           // a heartbeat is being sent
    reg [2:0] steps = 0;    // its groups that were used
    reg [2:0] since = 7;    // clocks since it was taken or a group was used
    wire taken = takes && due && !open && since > 3;
    wire step = takes && open && since > 3;
    always @($global_clock) begin
        if (taken || step) since <= 1;
        else if (since != 7) since <= since + 1;
        if (taken) steps <= 0;
        else if (step) steps <= steps + 1;
        open <= taken || open && !(step && steps == 5);
    end

    wire [31:0] group;
    wire [15:0] low, mid, high, kept_low, kept_mid, kept_high, kept_losses, losses_q;
    wire low_full, mid_step, mid_full, high_step, take_low, take_mid, take_high, kept_lost, step_taken, was_lost_q;
    wire [2:0] index;
    heartbeat heartbeat(
        .clock(3'b001), .lost(lost), .beat$sent(sent), .beat$due(due), .beat$taken(taken), .beat$step(step), .beat$group(group),
        .inner({low, mid, high, low_full, mid_step, mid_full, high_step, take_low, take_mid, take_high,
            kept_low, kept_mid, kept_high, kept_lost, kept_losses, index, step_taken,
            was_lost_q, losses_q})
    );

    reg [47:0] now = `START;
    reg [1:0] age = 0;      // clocks since power-on, up to 3
    reg was_lost = 0, ever = 0;
    reg [15:0] losses = 0;
    reg [127:0] says = 0;   // both words of the heartbeat taken last
    always @($global_clock) begin
        now <= now + 1;
        if (age != 3) age <= age + 1;
        was_lost <= lost;
        if (lost && !was_lost) losses <= losses + 1;
        if (taken) begin
            ever <= 1;
            says <= {!was_lost, 47'b0, losses, 16'b0, now};
        end
    end
    wire [31:0] expected = steps == 0 ? {4'd`VERSION, 4'd`HEARTBEAT, 8'd2, 16'd0} : says[32*(4-steps) +: 32];
    always @(*) if (step && steps < 5) contents: assert(group == expected);

`ifdef LEMMAS
    // The clock one, two and three clocks ago, or at power-on.
    wire [47:0] now1 = age >= 1 ? now - 1 : `START, now2 = age >= 2 ? now - 2 : `START;
    wire [47:0] now3 = age == 3 ? now - 3 : `START;
    // Clocks since the heartbeat was taken, up to 4.
    wire [2:0] taken_since = steps != 0 || since > 4 ? 4 : since;
    wire [47:0] taken_at = says[47:0];
    always @(*) begin
        assert(was_lost_q == was_lost && losses_q == losses);
        assert(age == 3 || now == `START + age);
        assert(low == now[15:0]);
        assert(low_full == (age >= 1 && now1[15:0] == 16'hffff));
        assert(mid_step == (age >= 2 && now2[15:0] == 16'hffff));
        assert(mid == now2[31:16]);
        assert(mid_full == (age >= 1 && now3[31:16] == 16'hffff));
        assert(high_step == (age == 3 && now3[31:0] == 32'hffffffff));
        assert(high == now3[47:32]);
        assert(since != 0 && (open ? ever && steps < 6 : steps == (ever ? 6 : 0)));
        assert(ever || since == 7);
        assert({take_low, take_mid, take_high} == {taken_since == 1, taken_since == 2, taken_since == 3});
        if (ever) begin
            if (taken_since < 4) assert(now == taken_at + taken_since && age >= taken_since);
            assert(kept_low == taken_at[15:0]);
            if (taken_since >= 3) assert(kept_mid == taken_at[31:16]);
            if (taken_since >= 4) assert(kept_high == taken_at[47:32]);
            assert(kept_lost != says[127] && kept_losses == says[79:64]);
            assert(says[126:80] == 0 && says[63:48] == 0);
        end
        assert(step_taken == (since == 1 && steps != 0));
        assert(index == steps - step_taken);
        if (steps < 5 && ever && since >= 3) assert(group == expected);
    end
`endif
endmodule
