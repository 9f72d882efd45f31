// The DSMU under any commands: an access only ever goes to a bank that was activated and not closed
// since, `LATENCY` clocks after the READ or WRITE that asked for it. Which bank and address is whichever
// ABC likes; the book about it is kept here, one bit, apart from the unit's own.

module check(input [`COMMAND_BITS-1:0] command);
    (* anyconst *) reg [3:0] bank;

    wire [`CODE_BITS-1:0] code = command[`CODE_AT +: `CODE_BITS];
    wire [3:0] ba = command[`BA_AT +: 4];
    wire a10 = command[`A_AT+10];
    wire here = ba == bank;
    wire accesses = (code == `READ || code == `WRITE) && here;
    reg open = 0;
    // What was asked on each of the clocks before: an access to the bank while it was open, a WRITE.
    reg [`LATENCY:0] allowed = 0, writes = 0;
    wire [`LATENCY:0] allowed_now = {allowed, accesses && open};
    wire [`LATENCY:0] writes_now = {writes, code == `WRITE};

    wire [`VERDICT_BITS-1:0] verdict;
    top dut(.clock(1'b1), .command(command),
        .valid(1'b1), .verdict(verdict));

    always @(*) begin
        assume(code <= `LAST_CODE);
        // Four banks: the pins of others are tied low.
        assume(ba < 4);
        // One rank. Whether it sleeps or wakes is as ABC likes: REFRESH or self-refresh entry.
        assume(command[`RANKS_AT +: 4] == (code != `QUIET));
    end

    always @($global_clock) begin
        allowed <= allowed_now;
        writes <= writes_now;
        if (code == `ACTIVATE && here) open <= 1;
        if (accesses && a10) open <= 0;
        if (code == `PRECHARGE && here) open <= 0;
        if (code == `PRECHARGE_ALL || code == `REFRESH) open <= 0;
    end

    wire access = verdict[`ACCESS_AT] && verdict[`VERDICT_BA_AT +: 4] == bank;
    always @(*) if (access) begin
        was_open: assert(allowed_now[`LATENCY]);
        same_direction: assert(verdict[`WRITE_AT] == writes_now[`LATENCY]);
        // An access and a fault exclude each other.
        no_fault: assert(verdict[`FAULT_AT +: 6] == 0);
    end
endmodule
