"""Plays recordings of DDR commands (tests/vectors) on the pins of a slot.

    clock edge of the slot    k                    k + 1
    CK       ___/~~~~~~~~~~\\__________/~~~~~~~~~~\\____
    pins     ==X=====================X================    change half a clock before the edge

An edge is counted from the start of the simulation, as the card counts it from power-on.
"""

import gzip
import re

from cocotb.clock import Clock
from cocotb.triggers import Timer

from now import now_ps

# RAS#, CAS#, WE# of the commands that the bench makes itself (JESD79, command truth table).
ACTIVATE, READ, PRECHARGE = (0, 1, 1), (1, 0, 1), (0, 1, 0)
COLUMNS = "clock cke cs_n ras_n cas_n we_n ba a".split()
# CKE, CS#, RAS#, CAS#, WE#, BA, A of a clock on which nothing happens.
DESELECT = (1, 1, 1, 1, 1, 0, 0)


def text(path):
    with gzip.open(path, "rt", encoding="ascii") as file:
        return file.read()


class Recording:
    """The start of a recording: its commands and, from its truth, its accesses.

    accesses: how many accesses it ends with.
    """

    def __init__(self, commands, truth, accesses):
        head, body = text(commands).split("\n---\n")
        self.header = dict(line.split("=", 1) for line in head.splitlines()
                           if "=" in line and not line.startswith("map "))
        self.map = {}
        for line in head.splitlines():
            if line.startswith("map "):
                name, sum_of_bits = line[4:].split("=")
                self.map[name] = sum(1 << int(bit[1:]) for bit in sum_of_bits.split("^"))
        if self.header["columns"].split() != COLUMNS:
            raise ValueError(f"{commands}: columns {self.header['columns']}")
        lines = [line.split() for line in text(truth).splitlines() if not line.startswith("#")]
        # (clock, R or W, address of the first word)
        self.accesses = [(int(clock), way, int(address, 16)) for clock, way, address in lines][:accesses]
        if len(self.accesses) < accesses:
            raise ValueError(f"{truth} has only {len(self.accesses)} accesses")
        self.last = self.accesses[-1][0]
        # (clock, levels) of the clocks at which the levels are listed
        self.commands = [command for command in map(self.command, body.splitlines())
                         if command[0] <= self.last]

    def tck_ps(self):
        """The clock period; where the header does not state it, that of the speed's transfers, two a clock."""
        stated = re.search(r"tCK ([\d.]+) ns", self.header["speed"])
        if stated:
            return round(float(stated[1]) * 1000)
        return round(2_000_000 / int(re.search(r"-(\d+)", self.header["speed"])[1]))

    @staticmethod
    def command(line):
        fields = line.split()
        levels = [int(field) for field in fields[1:6]] + [int(field, 16) for field in fields[6:]]
        return int(fields[0]), tuple(levels)

    def coordinate(self, axis, address):
        """Row, bank or column of an address: each bit is the XOR of the address bits of its mask."""
        masks = [mask for name, mask in self.map.items() if name.startswith(axis + "[")]
        return sum(((address & mask).bit_count() & 1) << bit for bit, mask in enumerate(masks))

    def reads(self, address, count):
        """The commands of so many READs of one burst of a bank that is closed before and after, and the
        clock at which each reads."""
        row, bank, column = (self.coordinate(axis, address) for axis in ("row", "bank", "col"))
        # Column bit 10 is on A11: A10 is auto-precharge.
        pins = column & 0x3ff | (column & 0x400) << 1
        spacing = max(int(self.header["burst_length"]) // 2, 1)
        clocks = [4 + spacing * index for index in range(count)]
        commands = [(0, (1, 0, *ACTIVATE, bank, row))]
        commands += [(clock, (1, 0, *READ, bank, pins)) for clock in clocks]
        return commands + [(clocks[-1] + 8, (1, 0, *PRECHARGE, bank, 0))], clocks


class Slot:
    """The pins of a board that lead to the slot. One rank: pins of others are as an empty slot has them."""

    def __init__(self, dut, tck_ps):
        self.dut, self.tck_ps = dut, tck_ps
        self.levels = None
        self.clock = Clock(dut.ddr_clock, tck_ps, unit="ps")
        # CS# is active low: those of absent ranks are high, their CKE low.
        self.absent_cs_n = (1 << len(dut.cs_n)) - 2
        self.drive(DESELECT)

    def start_clock(self):
        self.first_edge_ps = now_ps() + self.tck_ps // 2
        self.clock.start(start_high=False)

    def drive(self, levels):
        if levels == self.levels:
            return
        self.levels = levels
        cke, cs_n, ras_n, cas_n, we_n, ba, a = levels
        self.dut.cke.value = cke
        self.dut.cs_n.value = cs_n | self.absent_cs_n
        self.dut.ras_n.value = ras_n
        self.dut.cas_n.value = cas_n
        self.dut.we_n.value = we_n
        self.dut.ba.value = ba
        self.dut.a.value = a

    def next_edge(self):
        """The number of the first edge that has not come yet."""
        since_first = now_ps() - self.first_edge_ps
        return max(-(-since_first // self.tck_ps), 0)

    async def before_edge(self, edge):
        """Waits until half a clock before an edge."""
        at = self.first_edge_ps + edge * self.tck_ps - self.tck_ps // 2
        if at > now_ps():
            await Timer(at - now_ps(), unit="ps")

    async def play(self, commands):
        """Plays commands; clocks without one are DESELECT with CKE unchanged. Returns the number of the edge
        that their clock 0 is."""
        first = self.next_edge() + 2
        for clock, levels in commands:
            if self.levels[1] == 0:
                await self.before_edge(previous + 1)
                self.drive((self.levels[0], 1, *self.levels[2:]))
            await self.before_edge(first + clock)
            self.drive(levels)
            previous = first + clock
        await self.before_edge(previous + 1)
        self.drive((self.levels[0], 1, *self.levels[2:]))
        return first

    async def clocks(self, count):
        """Waits so many clocks."""
        await self.before_edge(self.next_edge() + count)
