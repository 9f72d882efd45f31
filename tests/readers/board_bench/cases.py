"""What is done to a board, and what must come out: one cocotb test a simulation, as there is no reset.

run.py says which board, which recording and which case.
"""

import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

import hmtt_reader
from expected import Frame, check_analysis, check_memory, lines_of
from phy import Phy
from slot import Recording, Slot

# docs/format.md, *Configuration registers*: analysis beside any mode, on.
ANALYSIS_ON = 0x52
INFO, END, HEARTBEAT = 1, 2, 3
# The bench's DDR clock runs before the PLL has locked, as a slot's may.
LOCK_NS = int(os.environ["HMTT_LOCK_NS"])
# docs/hardware.md: the pad registers are one clock more than the card has.
PADS = 1
# Transmit clocks without a frame after which no more is expected behind an end frame, and in which a capture
# ends, its dump included.
SILENT_CLOCKS, LONGEST_END_CLOCKS = 600, 12_000
# docs/format.md, *Heartbeats*: the DDR clock is lost after about 1024 transmit clocks without an edge.
LOST_CLOCKS = 1024
# docs/format.md, *Restarts*: clocks from the clock's return until accesses are captured again, and some more; most
# records that a loss costs: of two blocks, and what waited for one.
RESTART_CLOCKS, MOST_LOST = 512 + 100, 2 * 370 + 224 + 20
# Edges in the gaps of which runts come when the clock is back.
RETURN_RUNTS = 4
SEED = int(os.environ["HMTT_SEED"])


class Bench:
    """A board with its oscillator, slot and PHY, capturing from the time when the PLL has locked."""

    def __init__(self, dut):
        self.dut = dut
        self.board = os.environ["HMTT_BOARD"]
        self.recording = Recording(os.environ["HMTT_COMMANDS"], os.environ["HMTT_TRUTH"],
                                   int(os.environ["HMTT_ACCESSES"]))
        self.accesses = []  # (clock, R or W, address), with the card's clocks
        self.payloads = []
        self.slot = Slot(dut, self.recording.tck_ps())
        dut.run.value = 0
        if self.board == "ecpix-5":
            dut.rgmii_rxd.value = 0xf
        Clock(dut.clock_100, 10, unit="ns").start()
        self.slot.start_clock()
        self.phy = Phy(dut, self.board)

    async def start(self):
        # The clocks are clean from there on; LOCK (models/pll.v) comes later.
        await Timer(LOCK_NS + 100, unit="ns")
        self.phy.lock()
        self.dut.run.value = 1
        await self.slot.clocks(100)

    async def play(self):
        """Plays the recording."""
        first = await self.slot.play(self.recording.commands)
        self.accesses += [(first + clock + PADS, way, address)
                          for clock, way, address in self.recording.accesses]

    async def command(self, register):
        """Gives a command to the card: 32 accesses to a configuration register."""
        commands, clocks = self.recording.reads(8 * register, 32)
        first = await self.slot.play(commands)
        self.accesses += [(first + clock + PADS, "R", 8 * register) for clock in clocks]

    async def runt(self):
        """A runt edge of CK."""
        self.dut.runts.value = int(self.dut.runts.value) + 1
        await Timer(1, unit="ns")

    async def lose_clock(self):
        """CK stops and comes back, with runt edges at its end, while it is away and before its first edges."""
        self.slot.clock.stop()
        await Timer(3, unit="ns")
        for _ in range(SEED % 3):
            await self.runt()
        await Timer((LOST_CLOCKS + 100) * 8, unit="ns")
        await self.runt()
        self.slot.start_clock()
        for _ in range(RETURN_RUNTS):
            await self.runt()
            await RisingEdge(self.dut.ddr_clock)
            await Timer(1, unit="ns")

    async def stop(self):
        """Ends the capture, and waits for its end frames and what may follow them."""
        await self.slot.clocks(100)
        self.dut.run.value = 0
        for _ in range(LONGEST_END_CLOCKS // SILENT_CLOCKS):
            await self.phy.idle(SILENT_CLOCKS)
            self.payloads += self.phy.frames()
            if self.payloads and self.payloads[-1][14] & 15 == END:
                return

    def expected(self, accesses):
        """The records of accesses, by the memory that the first report names."""
        report = Frame(self.payloads[0])
        assert report.kind == INFO, f"the first frame is of kind {report.kind}"
        line_bytes = check_memory(report.words, self.recording)
        return lines_of(accesses, line_bytes, int(self.recording.header["burst_bytes"]),
                        report.words[10] & 0xffff)

    def check_restart(self, before):
        """Checks every frame of a capture in which the DDR clock was lost. before: the accesses until then; those
        since the restart have unknown clocks, but in the right distances."""
        self.payloads += self.phy.frames()
        counters = [Frame(payload).counter for payload in self.payloads]
        assert counters == list(range(len(counters))), f"frame counters {counters}"
        trace = list(hmtt_reader.trace(self.payloads))
        assert trace.count("# card restarted") == 1, [line for line in trace if line.startswith("#")]
        at = trace.index("# card restarted")
        assert trace[at - 1] == "# no end frame", trace[at - 1]
        reported = [line.split(" at ")[0] for line in trace[:at] if line.startswith("# DDR clock")]
        # One heartbeat where a frame was on the wire all the time.
        assert reported in (["# DDR clock lost", "# DDR clock found again"], ["# DDR clock lost and found again"]), reported
        silent = "# info ", "# end ", "# DDR "
        other = [line for line in trace if line.startswith("#") and not line.startswith(silent)]
        assert other[:2] == ["# no end frame", "# card restarted"], other[:3]
        found, since = ([line for line in part if not line.startswith("#")] for part in (trace[:at], trace[at:]))
        expected = self.expected(before)
        assert found == expected[:len(found)], "the trace before the loss"
        assert 0 < len(found), "nothing came of what was before the loss"
        assert len(expected) - len(found) <= MOST_LOST, f"{len(expected) - len(found)} records lost"
        expected = [line.split() for line in self.expected(self.accesses)]
        since = [line.split() for line in since]
        shift = int(since[0][0]) - int(expected[0][0])
        expected = [[str(int(clock) + shift), way, address] for clock, way, address in expected]
        for index, (is_, must) in enumerate(zip(since, expected)):
            assert is_ == must, f"access {index} since the restart is {is_}, not {must}"
        assert len(since) == len(expected), f"{len(since)} records since the restart, not {len(expected)}"
        reads = sum(way == "R" for _, way, _ in self.accesses)
        totals = f"reads {reads} writes {len(self.accesses) - reads} faults 0 tags 0"
        ends = [line for line in trace if line.startswith("# end ")]
        assert len(ends) == 3 and all(totals in line for line in ends), f"{ends} without {totals}"
        return other[2:]

    def check(self):
        """Checks every frame so far and all accesses. Returns the frames and the other lines of the trace."""
        self.payloads += self.phy.frames()
        frames = [Frame(payload) for payload in self.payloads]
        assert frames, "no frames"
        counters = [frame.counter for frame in frames]
        assert counters == list(range(len(frames))), f"frame counters {counters}"
        expected = self.expected(self.accesses)
        trace = list(hmtt_reader.trace(self.payloads))
        found = [line for line in trace if not line.startswith("#")]
        for index, (is_, must) in enumerate(zip(found, expected)):
            assert is_ == must, f"access {index} is {is_}, not {must}"
        assert len(found) == len(expected), f"{len(found)} records, not {len(expected)}"
        reads = sum(way == "R" for _, way, _ in self.accesses)
        totals = f"reads {reads} writes {len(self.accesses) - reads} faults 0 tags 0"
        ends = [line for line in trace if line.startswith("# end ")]
        assert len(ends) == 3 and all(totals in line for line in ends), f"{ends} without {totals}"
        if self.board == "ecpix-5":
            # docs/hardware.md: 16.8 ms.
            assert str(self.dut.phy_reset_n.value) == "0", "the PHY's reset ended too early"
        other = [line for line in trace if line.startswith("#")
                 and not line.startswith(("# info ", "# end "))]
        cocotb.log.warning("%s: %d frames of %d bytes, %d accesses in %d records", self.board, len(frames),
                           sum(map(len, self.payloads)), len(self.accesses), len(found))
        return frames, other


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def replay(dut):
    """A recording, the run switch off, the DDR clock off and on again."""
    bench = Bench(dut)
    await bench.start()
    await bench.play()
    await bench.stop()
    bench.check()
    bench.slot.clock.stop()
    await Timer((LOST_CLOCKS + SILENT_CLOCKS) * 8, unit="ns")
    bench.slot.start_clock()
    await bench.phy.idle(SILENT_CLOCKS)
    frames, other = bench.check()
    kinds = [frame.kind for frame in frames]
    data = len(frames) - 6
    assert data >= 3, f"only {data} data frames: too short a recording"
    assert kinds == [INFO] + [0] * data + [END] * 3 + [HEARTBEAT] * 2, f"kinds of frames {kinds}"
    assert len(other) == 2 and "clock lost at" in other[0] and "found again at" in other[1], other


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def power_on(dut):
    """The run switch on from power-on: nothing is sent before the PLL has locked, and all afterwards."""
    bench = Bench(dut)
    dut.run.value = 1
    await bench.start()
    await bench.play()
    await bench.stop()
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def analysis(dut):
    """The analysis switched on by a command, a recording, and the results when the capture stops."""
    bench = Bench(dut)
    await bench.start()
    await bench.command(ANALYSIS_ON)
    before = len(bench.accesses)
    await bench.play()
    await bench.stop()
    _, lines = bench.check()
    check_analysis(lines, [address >> 12 << 12 for _, _, address in bench.accesses[before:]])


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def runt_edges(dut):
    """CK is lost in a capture and found again, with runt edges. What was complete before comes, what comes
    after the restart is exact, hot pages included, and what is lost between the two is reported."""
    bench = Bench(dut)
    await bench.start()
    await bench.play()
    before, bench.accesses = bench.accesses, []
    await bench.lose_clock()
    await bench.slot.clocks(RESTART_CLOCKS)
    await bench.phy.idle(SILENT_CLOCKS)
    await bench.command(ANALYSIS_ON)
    counted = len(bench.accesses)
    await bench.play()
    await bench.stop()
    lines = bench.check_restart(before)
    check_analysis(lines, [address >> 12 << 12 for _, _, address in bench.accesses[counted:]])
