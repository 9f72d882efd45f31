// The DSMU under any commands, against the plain reading of them in rank_books.v. A READ or WRITE to one
// open bank comes out as an access exactly `LATENCY` clocks later, with the row of the bank's last
// ACTIVATE, its column and its direction, and without a fault; nothing else comes out as an access. What
// JEDEC forbids comes out as a fault then unless it is an access, and nothing is a fault before something
// was forbidden.
//
// One bank of one rank is looked at, whichever ABC likes. The books are a clock behind the pins.

module check(input [`COMMAND_BITS-1:0] command);
    (* anyconst *) reg [1:0] rank;
    (* anyconst *) reg [3:0] bank;

    reg [`COMMAND_BITS-1:0] asked = 0;
    wire [`CODE_BITS-1:0] code = asked[`CODE_AT +: `CODE_BITS];
    wire [3:0] ranks = asked[`RANKS_AT +: 4];
    wire [3:0] cke_falls = asked[`CKE_FALLS_AT +: 4], cke_rises = asked[`CKE_RISES_AT +: 4];
    wire [3:0] ba = asked[`BA_AT +: 4];
    wire [17:0] a = asked[`A_AT +: 18];

    wire [17:0] row_out;
    wire [`VERDICT_BITS-1:0] verdict;
    top dut(.clock(3'b001), .command(command),
        .valid(1'b1), .verdict(verdict), .row(row_out));

    wire [`CODE_BITS-1:0] coming = command[`CODE_AT +: `CODE_BITS];
    always @(*) begin
        assume(coming <= `LAST_CODE);
        assume(bank < `BANKS && rank < `RANKS);
        // The pins of others are tied low.
        assume(command[`BA_AT +: 4] < `BANKS);
        // What the DCBU gives: no command without a rank and no rank without a command; what wakes is
        // not commanded, and what falls asleep is.
        assume(command[`RANKS_AT +: 4] < (1 << `RANKS));
        assume((command[`RANKS_AT +: 4] != 0) == (coming != `NO_COMMAND));
        assume((command[`RANKS_AT +: 4] & command[`CKE_RISES_AT +: 4]) == 0);
        assume((command[`CKE_FALLS_AT +: 4] & ~command[`RANKS_AT +: 4]) == 0);
    end

    // Every rank's books.
    wire several = (ranks & (ranks - 1)) != 0;
    wire [4*`BANKS-1:0] open;
    wire [3:0] illegal;
    genvar i;
    generate for (i = 0; i < 4; i = i + 1) begin : of
        if (i < `RANKS) rank_books books(
            .code(code), .chosen(ranks[i]), .alone(!several), .sleeps(cke_falls[i]), .wakes(cke_rises[i]),
            .ba(ba), .a10(a[10]), .open(open[`BANKS*i +: `BANKS]), .illegal(illegal[i])
        );
        else begin
            assign open[`BANKS*i +: `BANKS] = 0;
            assign illegal[i] = 0;
        end
    end endgenerate

    // The bank that is looked at.
    wire here = ranks[rank] && ba == bank;
    reg [17:0] row = 0;
    reg fresh = 0, own_precharge = 0;
    wire is_open = open[`BANKS*rank + bank];
    wire column = code == `READ || code == `WRITE;
    wire access = column && here && !several && is_open;
    // Row hit 0, miss 1, conflict 2.
    wire [1:0] row_state = !fresh ? 0 : own_precharge ? 2 : 1;
    always @($global_clock) begin
        asked <= command;
        if (here && code == `ACTIVATE) begin
            row <= a;
            fresh <= 1;
            if (is_open) own_precharge <= 0;
        end
        if (access) fresh <= 0;
        if (here && code == `PRECHARGE && is_open) own_precharge <= 1;
        if (here && column && a[10]) own_precharge <= 0;
        if (ranks[rank] && (code == `PRECHARGE_ALL || code == `REFRESH)) own_precharge <= 0;
    end

    // An access by the books, whichever bank's, and whether anything was ever forbidden.
    wire [3:0] of_rank;
    generate for (i = 0; i < 4; i = i + 1) begin : any
        wire [`BANKS-1:0] rows = open[`BANKS*i +: `BANKS];
        assign of_rank[i] = ranks[i] && rows[ba];
    end endgenerate
    wire any_access = column && !several && of_rank != 0;
    reg misused = 0;
    wire misuse = misused || illegal != 0;
    always @($global_clock) misused <= misuse;

    // What the verdict must say, `LATENCY` clocks after the command.
    wire fault_now = illegal != 0 && !any_access;
    wire write = code == `WRITE;
    wire [42:0] now = {access, fault_now, misuse, write, row_state, row, a};
    reg [43*(`LATENCY-1)-1:0] waiting = 0;
    wire [43*`LATENCY-1:0] line = {waiting, now};
    always @($global_clock) waiting <= line;
    wire must_access, must_fault, may_fault, must_write;
    wire [1:0] must_state;
    wire [17:0] must_row, must_a;
    assign {must_access, must_fault, may_fault, must_write, must_state, must_row, must_a}
        = line[43*(`LATENCY-1) +: 43];

    wire [5:0] fault = verdict[`FAULT_AT +: 6];
    wire accessed = verdict[`ACCESS_AT] && verdict[`VERDICT_RANK_AT +: 2] == rank
        && verdict[`VERDICT_BA_AT +: 4] == bank;
    always @(*) begin
        as_the_books_say: assert(accessed == must_access);
        if (accessed) begin
            no_fault: assert(fault == 0);
            same_direction: assert(verdict[`WRITE_AT] == must_write);
            same_column: assert((verdict[`VERDICT_A_AT +: 18] ^ must_a) >> `BURST_BITS == 0);
            right_row: assert(row_out == must_row);
            right_state: assert(verdict[`ROW_STATE_AT +: 2] == must_state);
        end
        if (must_fault) reported: assert(fault != 0);
        if (!may_fault) innocent: assert(fault == 0 || fault == `REFRESH_OVERDUE);
    end
endmodule
