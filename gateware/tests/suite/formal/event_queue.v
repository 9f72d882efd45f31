// The event queue, between any source and any reader that takes only what is there: it never wraps, each event is stored
// with its clock, and each access is stored or counted.
//
// The queue begins with `START events, in clock `CLOCK. `inner` is what it stores and counts. Lemmas make the assertions inductive: together they hold after a clock if
// they held before it.

module check(
    input push, input clocks, input pop, input run, input slice, input tick, input access, input command,
    input fault, input [8:0] register, input [7:0] low
);
    localparam COMMAND_LOST = 39, RUN_CHANGE = 57, RUN = 58, ACCESS = 61, OVERRUN = 63, COMMAND = 65;
    localparam LAP_LOG2 = 15;

    wire pushes = push && clocks;
    wire [73:0] slot_event = {8'b0, command, 1'b0, 1'b0, fault, access, tick, slice, run, 1'b0, slice || tick,
        16'b0, 8'b0, 24'b0, low};
    wire valid;
    wire [73:0] entry_d;
    wire [7:0] write_at, read_at;
    wire [15:0] since;
    wire [16:0] laps;
    wire [31:0] missed;
    wire [7:0] missed_faults;
    wire writes_entry, overflows, nearly_full, full, has_laps, lap_ended, run_stored, has_missed, missed_command, passed_due;
    wire stores;
    wire holds_one, holds_two, holds_three, popped;
    top dut(
        .clock(3'b001), .write$slot_event(slot_event), .write$register(register), .write$push(pushes),
        .write$clocked(clocks), .read$valid(valid), .read$pop(pop && valid),
        .inner({entry_d, write_at, read_at, since, laps, missed, missed_faults, writes_entry, overflows, nearly_full, full, has_laps, lap_ended,
            run_stored, has_missed, missed_command, passed_due, stores, holds_one, holds_two, holds_three, popped})
    );
    wire pops = pop && valid;

    // Events in the memory.
    reg [8:0] used = `START;
    // The number of this clock, and the clock of the last stored event or lap.
    reg [39:0] now = `CLOCK, reached = 0;
    // Accesses while the switch was on that are neither stored nor counted by a stored overrun.
    reg [31:0] owed = 0;
    // A command was lost since the last stored overrun.
    reg lost = 0;
    // Level of the switch in the last stored change.
    reg level = 0;

    wire behind = has_laps || lap_ended;
    wire stores_event = stores && !behind, stores_lap = stores && behind;
    wire carries = stores_event && entry_d[OVERRUN];
    wire kept = stores_event && (entry_d[ACCESS] || entry_d[COMMAND]);
    wire misses = pushes && access && run && !kept;
    wire loses = pushes && command && !(stores_event && entry_d[COMMAND]);
    wire [15:0] gap = entry_d[55:40];
    wire [39:0] passed = {laps + lap_ended, 15'b0} + since;

    always @($global_clock) begin
        used <= used + writes_entry - pops;
        if (clocks) now <= now + 1;
        if (stores) reached <= reached + gap;
        owed <= (carries ? 0 : owed) + misses;
        lost <= lost && !carries || loses;
        if (stores_event && entry_d[RUN_CHANGE]) level <= entry_d[RUN];
    end

    always @(*) begin
        never_wraps: assert(used <= 255);
        if (valid) has_what_is_valid: assert(used != 0);
        // An event leaves with its own clock, a lap before it.
        if (stores_event) its_clock: assert(reached + gap == now);
        if (stores_lap) not_beyond: assert(gap == 1 << LAP_LOG2 && passed > gap);
        // What cannot be timed is not stored.
        if (laps[16]) silent: assert(!stores);
        // An overrun has all accesses that were missed before it, and whether a command was lost.
        if (carries) all_counted: assert(entry_d[31:0] == owed && entry_d[COMMAND_LOST] == lost);
        if (stores_event && entry_d[ACCESS]) in_order: assert(owed == 0);
        // A change of the switch is a change, and after an event other than a late start its level is stored.
        if (stores_event && entry_d[RUN_CHANGE]) changed: assert(entry_d[RUN] != level);
        if (stores_event && !(entry_d[RUN_CHANGE] && entry_d[RUN]))
            present: assert((entry_d[RUN_CHANGE] ? entry_d[RUN] : level) == run);
        // Without a capture nothing is counted.
        if (carries) in_capture: assert(level || owed == 0);
    end

`ifdef LEMMAS
    reg [7:0] read_before = 0;      // `read_at` a clock ago
    reg started = 0;
    always @($global_clock) {read_before, started} <= {read_at, 1'b1};
    always @(*) begin
        assert(used[7:0] == write_at - read_at && used <= 255);
        assert(used + writes_entry <= 254);
        if (!full) assert(used <= 252);
        if (!overflows) assert(used <= 224);
        if (full) assert(overflows && nearly_full);
        assert(since <= 1 << LAP_LOG2 && (since != 0 || laps == 0));
        assert(has_laps == (laps != 0) && laps <= 1 << 16 && (since == 1 || !lap_ended));
        if (!laps[16]) assert(reached + passed == now);
        assert(missed == owed && missed_command == lost && level == run_stored);
        if (owed != 0 || passed_due) assert(has_missed);
        assert(missed_faults <= `MOST_FAULTS);
        // What the reader sees is computed two clocks late.
        assert(read_at == read_before + popped);
        assert(holds_one == (started && read_before != write_at));
        assert(holds_two == (started && read_before + 8'd1 != write_at));
        assert(holds_three == (started && read_before + 8'd2 != write_at));
        if (!started) assert(used == `START);
    end
`endif
endmodule
