// The Tx thread between any sequence of blocks, heartbeats at any time, and a GMAC that takes its octets.
//
// A block has 0 to 6 words. The memory answers after `READ_CLOCKS; one word of it is looked at, whichever, and all payload
// headers. What is not between `freed` and the last committed block reads as anything. Heartbeats have any words, all the same
// ones. The frame counter is one without delays (counter.v).
//
// The lemmas make the assertions inductive: together they hold after a clock if they held before it. Wrong variants are looked
// for with `FIXED: blocks of one word and heartbeats in turn.

module check(
    input any_commits, input [2:0] any_length, input any_beats, input any_begins, input [63:0] anything
);
    wire valid, last, sent;
    wire [2:0] freed;
    reg [2:0] committed = 0;
    reg [39:0] counter = 0;
    reg due = 0;            // a heartbeat
`ifdef FIXED
    wire commits = freed == committed && !due, begins = 1, beats_any = valid && !counter[0];
    wire [2:0] offered = 1;
`else
    wire commits = any_commits, begins = any_begins, beats_any = any_beats;
    wire [2:0] offered = any_length == 7 ? 6 : any_length;
`endif
    localparam R = `READ_CLOCKS;
    (* anyconst *) reg [2:0] marked;
    (* anyconst *) reg [63:0] mark;
    (* anyconst *) reg [23:0] rest;         // of the payload header of blocks: version and kind, lost records
    (* anyconst *) reg [127:0] beat_words;

    // The writer.
    wire [2:0] used = committed - freed;
    wire [3:0] filled = used + 4'd1 + offered;
    reg [23:0] lengths = 0;
    reg [7:0] descriptors = 0;
    integer i;
    reg [2:0] place;
    always @($global_clock) if (commits && filled < 8) begin
        committed <= committed + 1 + offered;
        for (i = 0; i < 8; i = i + 1) begin
            place = i - committed;
            if (place == 0) lengths[3*i +: 3] <= offered;
            if (place <= offered) descriptors[i] <= place == 0;
        end
    end

    // The memory.
    function [31:0] header(input [2:0] words);
        header = {rest[23:16], 5'd0, words, rest[15:0]};
    endfunction
    wire [2:0] read_address;
    reg [64*R-1:0] answers = 0;
    wire [2:0] ahead = read_address - freed;
    wire is_descriptor = descriptors[read_address];
    wire [63:0] answer = ahead >= used ? anything
        : is_descriptor ? {anything[63:32], header(lengths[3*read_address +: 3])}
        : read_address == marked ? mark : anything;
    always @($global_clock) answers <= {answers, answer};
    wire [63:0] read = answers[64*R-1 -: 64];

    // Heartbeats.
    localparam [31:0] BEAT_HEADER = {4'd`VERSION, 4'd`HEARTBEAT, 8'd2, 16'd0};
    wire taken, step;
    reg [2:0] group_index = 0;
    reg [1:0] settles = 0;
    always @($global_clock) begin
        due <= beats_any || due && !taken;
        if (taken) group_index <= 0; else if (step) group_index <= group_index + 1;
        settles <= taken || step ? 2 : settles == 0 ? 0 : settles - 1;
    end
    wire [31:0] group = settles != 0 ? anything[31:0] : group_index == 0 ? BEAT_HEADER : beat_words[32*(4-group_index) +: 32];

    // The GMAC takes a frame byte by byte, eight clocks after it was offered or later.
    wire [7:0] data;
    reg taking = 0;
    reg [3:0] waits = 0;
    wire ready = taking;
    always @($global_clock) begin
        waits <= !valid || taking ? 0 : waits == 15 ? 15 : waits + 1;
        taking <= taking ? !last : valid && begins && waits >= 8;
    end

    // Registers of the thread.
    wire state, loads_group_q, reload, finishing, sends_heartbeat, pending;
    wire [2:0] group_q;
    wire [1:0] left;
    wire [7:0] words_left;
    wire [31:0] word_high, word_low, next_group, shift;
    wire [39:0] counted;
    thread thread(
        .clock(3'b001), .available(committed), .read$address(read_address), .read$high(read[63:32]),
        .read$low(read[31:0]), .read$freed(freed), .rewind(1'b0), .beat$due(due), .beat$taken(taken), .beat$step(step),
        .beat$group(group), .beat$sent(sent), .octets$valid(valid), .octets$data(data), .octets$last(last), .octets$ready(ready),
        .inner({state, group_q, pending, sends_heartbeat, word_high, word_low, loads_group_q, next_group, shift, left, reload,
            words_left, finishing, counted})
    );

    // What was taken.
    reg [6:0] octet = 0;
    reg [2:0] block = 0;
    reg beats = 0;          // a heartbeat is being sent
    reg was_valid = 0, was_due = 0;
    reg [1:0] idle = 0;     // clocks without a frame while a block waits
    wire [2:0] count = beats ? 2 : lengths[3*block +: 3];
    wire [6:0] bytes = 18 + 8 * count;
    always @($global_clock) begin
        was_valid <= valid;
        was_due <= due;
        idle <= !valid && block != committed ? idle + 1 : 0;
        if (!valid) beats <= taken;
        if (valid && ready) octet <= last ? 0 : octet + 1;
        if (valid && ready && last && !beats) block <= block + 1 + count;
        if (sent) counter <= counter + 1;
    end
    // Groups of a frame: the first has two octets, the fifth is the header.
    function [31:0] content(input [4:0] g);
        case (g)
            0: content = 32'h00000248;
            1: content = 32'h4d545400;
            2: content = {8'h02, counter[39:16]};
            3: content = {counter[15:0], 16'h88b5};
            4: content = beats ? BEAT_HEADER : header(count);
            default: content = beats ? beat_words[32*(8-g) +: 32] : g[0] ? mark[63:32] : mark[31:0];
        endcase
    endfunction
    function known(input [4:0] g);
        reg [2:0] address;
        begin
            address = block + 1 + ((g - 5) >> 1);
            known = g < 5 || beats || address == marked;
        end
    endfunction
    wire [4:0] at = (octet + 2) >> 2;
    wire [1:0] sub = octet + 2;
    wire [31:0] now = content(at) << (8 * sub);
    always @(*) begin
        if (valid && ready) begin
            ends: assert(last == (octet == bytes - 1));
            if (known(at)) octets: assert(data == now[31:24]);
        end
        if (valid && !beats) committed_first: assert(block != committed);
        if (valid) one_at_a_time: assert(!taken);
        if (valid && !was_valid) heartbeats_first: assert(beats == was_due);
        if (!valid && !was_valid) heartbeats_at_once: assert(!was_due);
        blocks_at_once: assert(idle <= 2);
        all_freed: assert(freed == block);
    end

`ifdef LEMMAS
    wire fresh = valid && octet == 0 && waits == 0 && !taking;
    wire [4:0] last_at = 4 + 2 * count;
    wire [3:0] entered = (at >= 3) + (at >= 5 ? (at - 3) >> 1 : 0);
    wire [3:0] before = (at - 1 >= 3) + (at - 1 >= 5 ? (at - 4) >> 1 : 0);
    wire [2:0] reads_at = beats || !valid ? block : block + entered;
    wire moved = !beats && valid && sub == 0 && (at == 3 || at >= 5 && at[0]);
    // Clocks for which the address has been what it is, at least.
    wire [6:0] stays = at < 3 ? waits + octet : at == 3 || at[0] ? sub : 4 + sub;
    wire [6:0] settled_since = at < 3 && taking ? 8 + octet : stays;
    wire [2:0] old_at = block + before;
    reg [2:0] p, left_words;    // a place, and the words to come of its block
    integer o;
    always @(*) begin
        assert(!taking || waits == 0 || octet == 0);
        assert(state == valid);
        if (!valid && idle != 0) assert(pending && idle == 1);
        assert(read_address == reads_at);
        if (taking) assert(valid);
        assert(octet == 0 || taking);
        if (valid) begin
            assert(octet < bytes && bytes <= 66);
            assert(sends_heartbeat == beats);
            assert(left == 3 - sub);
            assert(last == (octet == bytes - 1));
            if (!fresh) assert(reload == (sub == 3 && octet != bytes - 1));
            if (fresh) assert(!reload);
            assert(group_q == (at < 4 ? at : at[0] ? 5 : 4));
            if (at == 3 && sub != 0) assert(words_left == count);
            if (at >= 4) assert(words_left == count - ((at - 4) >> 1));
            if (sub != 0 && !fresh) assert(finishing == (at == last_at));
            assert(loads_group_q == (at != 0 && sub == 0 || fresh));
            if (!fresh && sub >= 1 && at < last_at && known(at + 1)) assert(next_group == content(at + 1));
            if (known(at)) assert(shift == now);
            if (beats) begin
                assert(group_index == (at < 3 ? 0 : at - 3 + (sub != 0)));
                assert(settles == (at >= 3 ? (sub == 0 ? 0 : 3 - sub) : taking || waits >= 2 ? 0 : 2 - waits));
            end
        end
        if (!valid) assert(!last);
        if (sent) assert(!valid);
        assert(counted == counter);
        // Blocks follow one another.
        left_words = 0;
        for (o = 0; o < 8; o = o + 1) begin
            p = block + o;
            if (o < used) begin
                assert(descriptors[p] == (left_words == 0));
                left_words = left_words == 0 ? lengths[3*p +: 3] : left_words - 1;
                if (descriptors[p]) assert(lengths[3*p +: 3] < 7);
            end
            if (o == used) assert(left_words == 0);
        end
        if (pending) assert(block != committed);
        if (!beats && valid) begin
            if (!moved && settled_since > R && reads_at != committed) begin
                if (entered == 0) assert(word_low == header(count));
                else if (entered <= count && reads_at == marked) assert({word_high, word_low} == mark);
            end
            if (moved) begin
                if (at == 3) assert(word_low == header(count));
                else if (old_at == marked) assert({word_high, word_low} == mark);
            end
            for (o = 0; o < R; o = o + 1) if (settled_since > o) begin
                if (entered == 0) assert(answers[64*o +: 32] == header(count));
                else if (entered <= count && reads_at == marked) assert(answers[64*o +: 64] == mark);
            end
        end
    end
`endif
endmodule
