// The GMAC between any source of frames and GMII: each frame has its preamble, octets, padding and check sequence, frames are
// apart.
//
// The source offers a frame of one octet or more and keeps to the handshake of gmac.rs. The FCS is that of the octets on TXD;
// its step is proved by itself (crc32.v).
//
// The lemmas make the assertions inductive: together they hold after a clock if they held before it. Wrong variants are looked
// for with `FIXED: frames of one octet without a pause.

module check(input any_offers, input [7:0] any_data, input any_last);
`ifdef FIXED
    wire offers = 1, last = 1;
    wire [7:0] data = 8'ha5;
`else
    wire offers = any_offers, last = any_last;
    wire [7:0] data = any_data;
`endif
    reg valid = 0;
    wire ready, tx_en;
    wire [7:0] txd;
    always @($global_clock) valid <= valid ? !(ready && last) : offers;

    // Registers of the GMAC.
    wire [2:0] state;
    wire [3:0] timer;
    wire [5:0] filled;
    wire [7:0] octet_q;
    wire [31:0] check_q;
    wire timed_out, taking, long_enough, sending, starts, feeds, checks_q;
    gmac gmac(
        .clock(3'b001), .octets$valid(valid), .octets$data(data), .octets$last(last), .octets$ready(ready), .txd(txd), .tx_en(tx_en),
        .inner({state, timer, timed_out, taking, filled, long_enough, octet_q, sending, starts, feeds, checks_q, check_q})
    );

    // Octets that were taken one and two clocks ago.
    reg [7:0] data1 = 0, data2 = 0;
    reg taken1 = 0, taken2 = 0, taken3 = 0;
    // What was on GMII: octets of the preamble, up to 8; of the frame, up to 60; of the FCS; clocks of the gap, up to 12.
    reg [3:0] preamble = 0;
    reg [5:0] octets = 0;
    reg [2:0] sums = 0;
    reg [3:0] gap = 12;
    reg [31:0] sum = 0;
    reg was_en = 0, was_ready = 0, was_last = 0;
    reg [6:0] waits = 0;    // clocks for which a frame has been offered

    wire [31:0] stepped;
    gmac$crc crc(.crc(sum), .data(txd), .stepped(stepped));
    wire body = tx_en && preamble == 8;
    wire checks = body && !taken2 && octets == 60;
    wire [31:0] next_sum = tx_en && preamble < 8 ? 32'hffffffff : body && !checks ? stepped : sum >> 8;
    always @($global_clock) begin
        {data2, data1} <= {data1, data};
        {taken3, taken2, taken1} <= {taken2, taken1, valid && ready};
        was_en <= tx_en;
        was_ready <= ready;
        was_last <= last;
        preamble <= !tx_en ? 0 : preamble == 8 ? 8 : preamble + 1;
        octets <= !tx_en ? 0 : body && octets != 60 ? octets + 1 : octets;
        sums <= checks ? sums + 1 : 0;
        gap <= tx_en ? 0 : gap == 12 ? 12 : gap + 1;
        waits <= valid && !ready ? waits + 1 : 0;
        sum <= next_sum;
    end
    always @(*) begin
        if (tx_en && !was_en) apart: assert(gap == 12);
        if (tx_en && preamble < 8) begins: assert(txd == (preamble == 7 ? 8'hd5 : 8'h55));
        if (taken2) carried: assert(body && txd == data2 && sums == 0 && (taken3 || octets == 0));
        if (body && !taken2 && octets < 60) padding: assert(txd == 0 && octets != 0);
        if (checks) sum_of_octets: assert(sums < 4 && txd == ~sum[7:0]);
        if (was_en && !tx_en) whole: assert(sums == 4);
        // What the source relies on.
        if (ready) not_too_soon: assert(valid && (was_ready || waits >= 8));
        if (was_ready && !was_last) goes_on: assert(ready);
        not_for_ever: assert(waits <= 84);
    end

`ifdef LEMMAS
    localparam AWAIT = 0, PREAMBLE = 1, DATA = 2, PAD = 3, CHECK = 4, GAP = 5;
    // State and timer one and two clocks ago, octets that the state has chosen, up to 63.
    reg [2:0] state1 = 0, state2 = 0;
    reg [3:0] timer1 = 0, timer2 = 0;
    reg [5:0] chosen = 0, chosen1 = 0, chosen2 = 0;
    always @($global_clock) begin
        {state2, state1} <= {state1, state};
        {timer2, timer1} <= {timer1, timer};
        {chosen2, chosen1} <= {chosen1, chosen};
        if (state == PREAMBLE) chosen <= 0;
        else if ((state == DATA || state == PAD) && chosen != 63) chosen <= chosen + 1;
    end
    wire first_gap = state2 == GAP && timer2 == 10;
    wire on2 = state2 >= PREAMBLE && state2 <= CHECK;
    always @(*) begin
        assert(state <= GAP && state1 <= GAP && state2 <= GAP);
        // One state follows another, its timer too.
        assert(taking == (state == DATA) && ready == taking);
        if (state == PREAMBLE || state == DATA) assert(valid);
        if (state == PREAMBLE) assert(timer <= 7);
        if (state == CHECK) assert(timer <= 3);
        if (state == GAP) assert(timer <= 10);
        if (state == PREAMBLE || state == CHECK || state == GAP) assert(timed_out == (timer == 0));
        if (state == DATA || state == PAD) begin
            assert(chosen == 63 || filled == chosen);
            assert(long_enough == (chosen >= 59));
        end
        if (state == PAD) assert(chosen != 0 && chosen <= 59);
        if (state == CHECK) assert(chosen >= 60);
        if (state == PREAMBLE && timer < 7) assert(filled == 0 && chosen == 0);
        if (state == PREAMBLE && timer < 6) assert(!long_enough);
        // The pipeline.
        assert(sending == (state1 >= PREAMBLE && state1 <= CHECK) && tx_en == on2);
        assert(starts == (state1 == PREAMBLE) && feeds == (state1 == DATA || state1 == PAD) && checks_q == (state1 == CHECK));
        assert(octet_q == (state1 == PREAMBLE ? (timer1 == 0 ? 8'hd5 : 8'h55) : state1 == DATA ? data1 : 0));
        if (state2 == CHECK) assert(txd == ~sum[7:0]);
        else assert(txd == (state2 == PREAMBLE ? (timer2 == 0 ? 8'hd5 : 8'h55) : state2 == DATA ? data2 : 0));
        assert(check_q == next_sum);
        assert(taken1 == (state1 == DATA) && taken2 == (state2 == DATA));
        assert(was_ready == (state1 == DATA));
        // What was on GMII.
        assert(preamble == (state2 == PREAMBLE ? 7 - timer2 : on2 || first_gap ? 8 : 0));
        assert(octets == (state2 == DATA || state2 == PAD ? (chosen2 > 60 ? 60 : chosen2) : state2 == CHECK || first_gap ? 60 : 0));
        assert(sums == (state2 == CHECK ? 3 - timer2 : first_gap ? 4 : 0));
        assert(was_en == (on2 && !(state2 == PREAMBLE && timer2 == 7) || first_gap));
        if (state2 == GAP) assert(gap == 10 - timer2);
        if (state2 == AWAIT) assert(gap == 11 || gap == 12);
        if (on2) assert(gap == (state2 == PREAMBLE && timer2 == 7 ? 12 : 0));
        // How states one and two clocks ago lead to those after them.
        assert(leads(state1, timer1, chosen1, state, timer, chosen));
        assert(leads(state2, timer2, chosen2, state1, timer1, chosen1));
        if (state2 == DATA) assert(taken3 == (chosen2 != 0));
        // A frame that is offered waits for the one before, its padding, check sequence and gap.
        if (state == PREAMBLE) assert(waits >= 8 - timer && waits <= 83 - timer);
        if (state == PAD) assert(waits <= chosen);
        if (state == CHECK) assert(waits <= 63 - timer);
        if (state == GAP) assert(waits <= 74 - timer);
        if (state == AWAIT) assert(waits <= 75 && (valid || waits == 0));
    end
    // Whether state, timer and chosen octets may follow others.
    function leads(
        input [2:0] from, input [3:0] from_timer, input [5:0] from_chosen,
        input [2:0] to, input [3:0] to_timer, input [5:0] to_chosen
    );
        case (from)
            AWAIT: leads = to == AWAIT || to == PREAMBLE && to_timer == 7;
            PREAMBLE: leads = to_chosen == 0 &&
                (from_timer == 0 ? to == DATA : to == PREAMBLE && to_timer == from_timer - 1);
            DATA: leads = to_chosen == (from_chosen == 63 ? 63 : from_chosen + 1) &&
                (to == DATA || (from_chosen >= 59 ? to == CHECK && to_timer == 3 : to == PAD));
            PAD: leads = to_chosen == from_chosen + 1 && from_chosen != 0 && from_chosen <= 59 &&
                (from_chosen == 59 ? to == CHECK && to_timer == 3 : to == PAD);
            CHECK: leads = from_timer == 0 ? to == GAP && to_timer == 10 : to == CHECK && to_timer == from_timer - 1;
            default: leads = from_timer == 0 ? to == AWAIT : to == GAP && to_timer == from_timer - 1;
        endcase
    endfunction
`endif
endmodule
