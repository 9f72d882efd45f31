// The packet FIFO between any writer that keeps its rules and any reader that keeps its own. Clocks are
// enables: in each step either edge, both or none may come.
//
// One bit of each half is looked at; the others are alike.
//
// Positions number the words of the stream and are kept to two bits more than addresses: a word read
// in the place of one written a lap of the memory earlier or later is seen.

module check(
    input ddr_edge, input tx_edge,
    // The writer's choices: open a block of so many words, write these halves there, close it.
    input opens, input [`N-1:0] length, input closes,
    input high_enable, input low_enable, input [`N-1:0] offset,
    input high, input low,
    // The reader's: which word to read, how far to free.
    input [`N-1:0] ahead, input [`N-1:0] frees
);
    localparam P = `N + 2;

    // One word of the stream, whichever it is.
    (* anyconst *) reg [P-1:0] marked;
    (* anyconst *) reg [1:0] mark;
    // A place that may be inside a block.
    (* anyconst *) reg [P-1:0] place;

    reg [P-1:0] written = 0;  // end of the last block
    reg [P-1:0] freed = 0;
    reg [P-1:0] seen = 0;     // `available`, with the laps
    reg open = 0;
    reg [`N-1:0] words = 0;
    reg [2:0] settled = `SPACE_LATENCY;
    reg high_marked = 0, low_marked = 0;
    reg place_inside = 0;

    wire space_available;
    wire [`N-1:0] available;
    wire [31:0] read_high, read_low;

    wire [P-1:0] at = written + offset;
    wire writes = ddr_edge && open;
    wire high_writes = writes && high_enable, low_writes = writes && low_enable;
    wire commits = writes && closes;
    wire [P-1:0] marked_offset = marked - written, place_offset = place - written;
    wire [P-1:0] read_at = freed + ahead;
    reg marked_read = 0;

    top dut(
        .ddr_clock({2'b0, ddr_edge}), .tx_clock({2'b0, tx_edge}),
        .write$high_enable(open && high_enable), .write$low_enable(open && low_enable),
        .write$address(at[`N-1:0]), .write$high({32{high}}), .write$low({32{low}}),
        .write$committed(written[`N-1:0]), .space_available(space_available),
        .read$address(read_at[`N-1:0]), .read$high(read_high), .read$low(read_low),
        .available(available), .read$freed(freed[`N-1:0])
    );

    // `available` as the reader follows it.
    wire [`N-1:0] step = available - seen[`N-1:0];
    wire [P-1:0] seen_now = seen + step;

    always @(*) begin
        // The writer keeps to its block, and the block is complete when it closes.
        assume(length != 0 && length <= `BLOCK_WORDS);
        if (open) assume(offset < words);
        if (high_writes && at == marked) assume(high == mark[1]);
        if (low_writes && at == marked) assume(low == mark[0]);
        if (commits && marked_offset < words) begin
            assume(high_marked || (high_writes && at == marked));
            assume(low_marked || (low_writes && at == marked));
        end
        // The reader reads and frees only what it sees.
        assume(frees <= seen_now - freed);
    end

    always @($global_clock) begin
        if (ddr_edge) begin
            if (settled != `SPACE_LATENCY) settled <= settled + 1;
            if (!open && opens && space_available && settled == `SPACE_LATENCY) begin
                open <= 1;
                words <= length;
                high_marked <= 0;
                low_marked <= 0;
            end
            if (high_writes && at == marked) high_marked <= 1;
            if (low_writes && at == marked) low_marked <= 1;
            if (commits) begin
                open <= 0;
                written <= written + words;
                settled <= 0;
                if (place_offset <= words && place_offset != 0) place_inside <= place_offset != words;
            end
        end
        seen <= seen_now;
        if (tx_edge) begin
            freed <= freed + frees;
            marked_read <= read_at == marked && ahead < seen_now - freed;
        end
    end

    wire [P-1:0] ahead_of_freed = at - freed, seen_words = seen_now - freed, all_words = written - freed;
    always @(*) begin
        // What is read is what was written there.
        if (marked_read) unchanged: assert({read_high[`BIT], read_low[`BIT]} == mark);
        // Nothing is overwritten that is not freed.
        if (high_writes || low_writes) kept: assert(ahead_of_freed < (1 << `N));
        // `available` stays between what was freed and what was committed, on a block's border.
        behind: assert(seen_words <= all_words && all_words < (1 << `N));
        if (seen_now == place && place_offset >= (3 << `N)) border: assert(!place_inside);
    end
endmodule
