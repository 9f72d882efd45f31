// One step of the frame check sequence against its definition, bit by bit (IEEE 802.3 clause 3.2.9).

module check(input [31:0] any_crc, input [7:0] any_data);
    // Registers, as a search over steps needs some.
    reg [31:0] crc = 0;
    reg [7:0] data = 0;
    always @($global_clock) {crc, data} <= {any_crc, any_data};
    wire [31:0] stepped;
    top dut(.crc(crc), .data(data), .stepped(stepped));

    reg [31:0] expected;
    integer i;
    always @(*) begin
        expected = crc ^ data;
        for (i = 0; i < 8; i = i + 1)
            expected = expected[0] ? (expected >> 1) ^ 32'hedb88320 : expected >> 1;
        equal: assert(stepped == expected);
    end
endmodule
