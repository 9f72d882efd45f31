"""The PHY's end of GMII or RGMII: the frames that it receives, and what it needs to receive them.

cocotbext-eth's sinks collect the frames. Beside them every edge of the transmit clock is watched: levels are
known, data keeps its distance from the clock, and the clock has 125 MHz.
"""

from cocotb.triggers import FallingEdge, RisingEdge, Timer, ValueChange
from cocotbext.eth import GmiiSink, RgmiiSink
import cocotb

from now import now_ps

PREAMBLE = bytes([0x55] * 7 + [0xd5])
PERIOD_PS = 8000
# 802.3, 4.4.2: interPacketGap, 96 bit times.
GAP_PS = 96_000
# Least and most ps from a change of data to the edge that takes it, and least from that edge to the next
# change. GMII: 802.3, table 35-8. RGMII: docs/hardware.md, the KSZ9031 without delays of its own; what is
# not before the one edge is behind the other, 4 ns earlier.
GMII_PS = 2500, PERIOD_PS, 500
RGMII_PS = 1000, 2600, 1000


def known(handle):
    return set(str(handle.value)) <= set("01")


class Phy:
    """The transmit side of a PHY on a board."""

    def __init__(self, dut, board):
        self.gmii = board == "alchitry-cu"
        if self.gmii:
            self.clock, self.control = dut.gmii_gtx_clk, dut.gmii_tx_en
            self.data, self.error = dut.gmii_txd, dut.gmii_tx_er
            self.setup_ps, self.latest_ps, self.hold_ps = GMII_PS
        else:
            self.clock, self.control, self.data = dut.rgmii_txc, dut.rgmii_tx_ctl, dut.rgmii_txd
            self.error = None
            self.setup_ps, self.latest_ps, self.hold_ps = RGMII_PS
        # What must be known in a frame.
        self.levels = [self.data] if self.error is None else [self.data, self.error]
        self.locked = False
        # When data changed, an edge took it, and there was a frame.
        self.changed_ps = self.clocked_ps = self.frame_ps = 0
        self.ended = None  # when the last frame taken did
        # cocotbext-eth 0.1.24 to 0.1.28: GmiiSink takes the first byte of a frame for its start, and drops it.
        self.first_bytes = []
        for handle in [*self.levels, self.control]:
            cocotb.start_soon(self.watch_data(handle))
        cocotb.start_soon(self.watch_edges(RisingEdge(self.clock)))
        if not self.gmii:
            cocotb.start_soon(self.watch_edges(FallingEdge(self.clock)))
        cocotb.start_soon(self.watch_period())

    def lock(self):
        """The clock is clean from here on: frames are received."""
        self.locked = True
        if self.gmii:
            self.sink = GmiiSink(self.data, self.error, self.control, self.clock)
        else:
            self.sink = RgmiiSink(self.data, self.control, self.clock)

    async def watch_edges(self, edge):
        """Each edge that takes levels: TX_EN or TX_CTL is 0 or 1, and with it 1, so are the others."""
        within = False
        while True:
            await edge
            now = now_ps()
            assert known(self.control), f"{now} ps: {self.control._name} is {self.control.value}"
            taken = str(self.control.value) == "1"
            assert self.locked or not taken, f"{now} ps: a frame while the PLL has not locked"
            for handle in self.levels:
                assert not taken or known(handle), f"{now} ps: {handle._name} is {handle.value} in a frame"
            if taken:
                if self.gmii and not within:
                    self.first_bytes.append(int(self.data.value))
                self.frame_ps = now
            within = taken
            if self.locked:
                before = now - self.changed_ps
                assert before >= self.setup_ps, f"{now} ps: data changed {before} ps before its edge"
            self.clocked_ps = now

    async def watch_data(self, handle):
        """Each change of data: not too soon after an edge, nor so late that another PHY clock is meant."""
        while True:
            await ValueChange(handle)
            now = now_ps()
            if self.locked:
                held = now - self.clocked_ps
                assert held >= self.hold_ps, f"{now} ps: {handle._name} changes {held} ps after an edge"
                least = PERIOD_PS // (1 if self.gmii else 2) - self.latest_ps
                assert held >= least, f"{now} ps: {handle._name} changes {held} ps after an edge"
            self.changed_ps = now

    async def watch_period(self):
        before = None
        while True:
            await RisingEdge(self.clock)
            now = now_ps()
            if self.locked and before is not None:
                assert now - before == PERIOD_PS, f"{now} ps: a transmit clock of {now - before} ps"
            before = now if self.locked else None

    async def idle(self, clocks):
        """Waits until no frame was on the wire for so many clocks."""
        start = now_ps()
        while (silent_from := max(start, self.frame_ps)) + clocks * PERIOD_PS > now_ps():
            await Timer(silent_from + clocks * PERIOD_PS - now_ps(), unit="ps")

    def frames(self):
        """The frames since the last call, without preamble and frame check sequence, each checked against
        802.3, clauses 3 and 4."""
        found = []
        while not self.sink.empty():
            frame = self.sink.recv_nowait()
            at = f"the frame at {frame.sim_time_start} ps"
            assert frame.error is None, f"{at}: TX_ER"
            if self.gmii:
                frame.data.insert(0, self.first_bytes.pop(0))
            preamble = bytes(frame.data[:8])
            assert preamble == PREAMBLE, f"{at}: preamble {preamble.hex(' ')}"
            assert frame.check_fcs(), f"{at}: frame check sequence"
            payload = bytes(frame.get_payload())
            assert 60 <= len(payload) <= 1514, f"{at}: {len(payload)} bytes"
            if self.ended is not None:
                gap = frame.sim_time_start - self.ended
                assert gap >= GAP_PS, f"{at}: a gap of {gap} ps"
            self.ended = frame.sim_time_end
            found.append(payload)
        return found
