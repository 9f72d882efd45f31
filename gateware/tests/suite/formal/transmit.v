// Tx thread and GMAC between any sequence of blocks and a PHY that knows what they must become.
//
// The memory holds any words; what is not between `freed` and the last committed block reads as
// anything. It answers after `READ_CLOCKS. Both blocks are in reset for the first `RESET_CLOCKS.

module check(input [63:0] anything);
    (* anyconst *) reg [64*(1<<`N)-1:0] memory;

    // The lengths of blocks are given: the first one's, and all others'.
    function [7:0] words(input [`N-1:0] at);
        words = at == 0 ? `FIRST_WORDS : `OTHER_WORDS;
    endfunction
    function [63:0] word(input [`N-1:0] at);
        word = memory[64*at +: 64];
    endfunction
    // The payload header: version and kind, count, lost records.
    function [31:0] descriptor(input [`N-1:0] at);
        descriptor = {memory[64*at+24 +: 8], words(at), memory[64*at +: 16]};
    endfunction

    // The writer commits blocks that fit: the first one at once, others from some clock on.
    reg [`N-1:0] committed = 0;
    wire [`N-1:0] freed;
    wire [`N-1:0] used = committed - freed;
    wire [7:0] offered = words(committed);
    wire fits = used + 1 + offered < (1 << `N);
    reg [8:0] clock = 0;
    reg [1:0] resets = 0;
    wire reset = resets != `RESET_CLOCKS;
    always @($global_clock) if (reset) resets <= resets + 1;
    reg [(1<<`N)-1:0] descriptors = 0;
    integer i;
    reg [`N-1:0] place;
    always @($global_clock) begin
        if (clock != `COMMITS_AT) clock <= clock + 1;
        if ((clock == 0 || clock == `COMMITS_AT) && fits) begin
            committed <= committed + 1 + offered;
            for (i = 0; i < 1 << `N; i = i + 1) begin
                place = i - committed;
                if (place <= offered) descriptors[i] <= place == 0;
            end
        end
    end

    // The memory.
    wire [`N-1:0] read_address;
    reg [64*`READ_CLOCKS-1:0] answers = 0;
    wire [`N-1:0] ahead = read_address - freed;
    wire [63:0] stored = word(read_address);
    wire [63:0] answer = ahead >= used ? anything
        : descriptors[read_address] ? {stored[63:32], descriptor(read_address)} : stored;
    always @($global_clock) answers <= {answers, answer};
    wire [63:0] read = answers[64*`READ_CLOCKS-1 -: 64];

    wire valid, last, ready, tx_en;
    wire [7:0] data, txd;
    thread thread(
        .clock({reset, reset, 1'b1}), .available(committed), .read$address(read_address), .read$high(read[63:32]),
        .read$low(read[31:0]), .read$freed(freed), .rewind(1'b0), .beat$due(1'b0), .octets$valid(valid), .octets$data(data), .octets$last(last), .octets$ready(ready)
    );
    gmac gmac(
        .clock({reset, reset, 1'b1}), .octets$valid(valid), .octets$data(data), .octets$last(last), .octets$ready(ready), .txd(txd), .tx_en(tx_en)
    );

    // The PHY's side: where in the frame, and which block it must be.
    reg was_en = 0;
    reg [`OCTET_BITS-1:0] octet = 0;
    reg [3:0] gap = 12;
    reg [`N-1:0] block = 0;
    reg [39:0] counter = 0;
    reg [31:0] sum = 32'hffffffff;

    wire [7:0] count = words(block);
    wire [`OCTET_BITS-1:0] used_bytes = 18 + 8 * count;
    wire [`OCTET_BITS-1:0] bytes = used_bytes < 60 ? 60 : used_bytes;
    wire [`OCTET_BITS-1:0] at = octet - 8;
    wire [`OCTET_BITS-1:0] in_words = octet - 26;
    wire [31:0] header = descriptor(block);
    wire [63:0] payload = word(block + 1 + (in_words >> 3));
    wire [31:0] complement = ~sum;
    wire [111:0] addresses = {48'h02484d545400, 8'h02, counter, 16'h88b5};

    // The CRC's step is proved by itself (crc32.v): here the same step keeps the two sums comparable.
    wire [31:0] stepped;
    gmac$crc crc(.crc(sum), .data(txd), .stepped(stepped));

    reg [7:0] expected;
    always @(*) begin
        if (octet < 7) expected = 8'h55;
        else if (octet == 7) expected = 8'hd5;
        else if (at < 14) expected = addresses[8*(13-at) +: 8];
        else if (at < 18) expected = header[8*(17-at) +: 8];
        else if (at < used_bytes) expected = payload[8*(7-in_words[2:0]) +: 8];
        else if (at < bytes) expected = 8'h00;
        else expected = complement[8*(at-bytes) +: 8];
    end

    always @($global_clock) begin
        was_en <= tx_en;
        if (tx_en) begin
            octet <= octet + 1;
            gap <= 0;
            if (octet >= 8 && at < bytes) sum <= stepped;
        end else begin
            octet <= 0;
            sum <= 32'hffffffff;
            if (gap != 12) gap <= gap + 1;
            if (was_en) begin
                block <= block + 1 + count;
                counter <= counter + 1;
            end
        end
    end

    always @(*) begin
        if (tx_en) begin
            if (!was_en) begin
                apart: assert(gap == 12);
                committed_first: assert(block != committed);
            end
            no_longer: assert(at < bytes + 4 || octet < 8);
            octets: assert(txd == expected);
        end else if (was_en) no_shorter: assert(at == bytes + 4);
    end
endmodule
