// What the commands say of one rank, read by the rules of docs/format.md ("Protocol faults"): which of its
// banks are open, and which commands JEDEC forbids on this clock. Counts clocks since the commands that
// begin a distance, where the unit counts down what is left of it.

module rank_books(
    input [`CODE_BITS-1:0] code, input chosen, input alone, input sleeps, input wakes,
    input [3:0] ba, input a10,
    output reg [`BANKS-1:0] open, output illegal
);
    reg [7:0] since_refresh = `TRFC, since_exit = `TXS, since_mode = `TMRD;
    reg [8*`BANKS-1:0] since_activate = {`BANKS{8'd`TRCD}}, since_precharge = {`BANKS{8'd`TRP}};
    reg self_refresh = 0;
    initial open = 0;

    wire barred = since_refresh < `TRFC || since_exit < `TXS || since_mode < `TMRD;
    wire any_open = open != 0;
    reg any_in_rp;
    integer i;
    always @(*) begin
        any_in_rp = 0;
        for (i = 0; i < `BANKS; i = i + 1)
            if (!open[i] && since_precharge[8*i +: 8] < `TRP) any_in_rp = 1;
    end

    wire [`BANKS-1:0] named = 1 << ba;
    wire row_open = (open & named) != 0;
    wire column = code == `READ || code == `WRITE;
    wire opens = code == `ACTIVATE && !row_open && !barred && alone;

    reg forbidden;
    always @(*) begin
        case (code)
            `ACTIVATE: forbidden = !alone || row_open || since_precharge[8*ba +: 8] < `TRP;
            `READ, `WRITE: forbidden = !alone || !row_open || since_activate[8*ba +: 8] < `TRCD;
            `REFRESH, `MODE_REGISTER_SET, `ZQ_CALIBRATION: forbidden = any_open || any_in_rp;
            `RESERVED: forbidden = 1;
            default: forbidden = 0;
        endcase
    end
    assign illegal = chosen && code != `NO_COMMAND && (barred || forbidden);

    always @($global_clock) begin
        if (since_refresh < `TRFC) since_refresh <= since_refresh + 1;
        if (since_exit < `TXS) since_exit <= since_exit + 1;
        if (since_mode < `TMRD) since_mode <= since_mode + 1;
        for (i = 0; i < `BANKS; i = i + 1) begin
            if (since_activate[8*i +: 8] < `TRCD) since_activate[8*i +: 8] <= since_activate[8*i +: 8] + 1;
            if (since_precharge[8*i +: 8] < `TRP) since_precharge[8*i +: 8] <= since_precharge[8*i +: 8] + 1;
        end
        if (wakes) begin
            self_refresh <= 0;
            if (self_refresh) since_exit <= 1;
        end
        if (chosen) begin
            // Also a command that is illegal closes; only a legal one opens.
            if (code == `ACTIVATE || code == `PRECHARGE || column && a10) open <= open & ~named;
            if (opens) open <= open | named;
            if (code == `PRECHARGE_ALL || code == `REFRESH) open <= 0;
            if (opens) since_activate[8*ba +: 8] <= 1;
            if (code == `ACTIVATE) since_precharge[8*ba +: 8] <= `TRP;
            if (code == `PRECHARGE && row_open) since_precharge[8*ba +: 8] <= 1;
            for (i = 0; i < `BANKS; i = i + 1)
                if (code == `PRECHARGE_ALL && open[i]) since_precharge[8*i +: 8] <= 1;
            if (code == `REFRESH && sleeps) self_refresh <= 1;
            if (code == `REFRESH && !sleeps && !any_open) since_refresh <= 1;
            if (code == `MODE_REGISTER_SET && !barred && !any_open) since_mode <= 1;
        end
    end
endmodule
