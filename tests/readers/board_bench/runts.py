"""A board's Verilog to one whose registers a runt edge of CK can corrupt.

A pulse that is too short flips some registers of the DDR domain and leaves others. Each change of `runts` in module
top does that: it flips a random part of what every register that CK drives holds, and spoils words of its block
RAMs. Not those of the packet FIFO: a runt edge writes one word of it at most (docs/hardware.md, *Resets*). Registers
with an asynchronous reset keep their values while it lasts, whatever their clock does.
"""

import re

# Blocks of the card that CK drives: the whole of some, and parts of those that both clocks drive. What is
# flipped in clock_watch and ddr_reset is what no reset reaches.
WHOLE = ("command_buffer state_machine event_source event_queue config_unit traces timekeeper totals frequency "
         "analysis other_words block_writer ddr_reset").split()
PARTS = """packet_fifo$used packet_fifo$has_space clock_watch$divider clock_watch$divider_full clock_watch$toggle
packet_fifo$forward$hold packet_fifo$forward$request packet_fifo$forward$seen_sampled
packet_fifo$forward$seen_stable packet_fifo$backward$request_sampled packet_fifo$backward$request_stable
packet_fifo$backward$seen packet_fifo$backward$taken""".split()
MODULE = re.compile(r"^module (top\S*?)\(.*?^endmodule", re.DOTALL | re.MULTILINE)
# More bits than the widest register has.
NOISE = "{" + ", ".join(["$urandom"] * 12) + "}"
SPOILT_WORDS = 8
# A seed is how many random numbers are passed over: iverilog's begin with the same in each run.
RUNTS = """
    reg [31:0] runts = 0;
    integer runt_seed, passed;
    initial if ($value$plusargs("runt_seed=%d", runt_seed)) repeat (runt_seed * 7919) passed = $urandom;"""


def is_ddr(name):
    """Whether CK drives the registers of a module."""
    _, _, path = name.partition("$card$")
    return path.split("$")[0] in WHOLE or path in PARTS


def flips(body):
    """Statements that flip what a module's registers hold."""
    written = dict.fromkeys(re.findall(r"(\w+)(?:\[[^\]]*\])? <= ", body))
    for name in written:
        words = re.search(rf"\breg\b.*\b{name} \[0:(\d+)\];", body)
        if words:
            for _ in range(SPOILT_WORDS):
                yield f"{name}[$urandom % {int(words[1]) + 1}] = {NOISE};"
        else:
            yield f"{name} = {name} ^ ({NOISE} & {NOISE});"


def with_runts(verilog):
    """The Verilog with `runts`, and how many modules it reaches."""
    reached = 0

    def hooked(found):
        nonlocal reached
        body = found[0]
        if found[1] == "top":
            return body.removesuffix("endmodule") + RUNTS + "\nendmodule"
        if not is_ddr(found[1]) or "posedge" not in body:
            return body
        reached += 1
        statements = "\n        ".join(flips(body))
        unless = "if (!clock[1]) " if "posedge clock[1]" in body else ""
        return body.removesuffix("endmodule") + \
            f"    always @(top.runts) {unless}begin\n        {statements}\n    end\nendmodule"

    return MODULE.sub(hooked, verilog), reached
