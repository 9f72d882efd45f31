"""What a card must say of accesses, by docs/format.md alone."""

from dataclasses import dataclass


def lines_of(accesses, line_bytes, burst_bytes, window):
    """Records of line mode: the bursts of a line merged (section *Line mode*). accesses: (clock, R or W,
    address); window: the merge window in clocks."""
    found, pending, seen = [], None, set()
    for clock, way, address in accesses:
        line, burst = address // line_bytes, address // burst_bytes
        if pending and pending[1:] == (way, line) and burst not in seen and clock - pending[0] <= window:
            seen.add(burst)
            continue
        if pending:
            found.append(pending)
        pending, seen = (clock, way, line), {burst}
    if pending:
        found.append(pending)
    return [f"{clock} {way} {line * line_bytes:x}" for clock, way, line in found]


@dataclass
class Frame:
    """The fields of a frame's header (section *Ethernet frame*)."""

    counter: int
    kind: int
    words: list

    def __init__(self, payload):
        assert payload[:7] == bytes.fromhex("02484d54540002"), f"addresses {payload[:12].hex(' ')}"
        assert payload[12:14] == b"\x88\xb5", f"EtherType {payload[12:14].hex()}"
        assert payload[14] >> 4 == 2, f"version {payload[14] >> 4}"
        self.counter, self.kind = int.from_bytes(payload[7:12], "big"), payload[14] & 15
        end = 18 + 8 * payload[15]
        assert len(payload) == max(end, 60), f"{len(payload)} bytes for {payload[15]} words"
        assert not any(payload[end:]), "padding is not 0"
        self.words = [int.from_bytes(payload[at:at + 8], "big") for at in range(18, end, 8)]


def check_memory(words, recording):
    """The memory that a report names is the recording's (section *Info and end frames*, words 8 and 12
    on)."""
    axes = [[mask for name, mask in recording.map.items() if name.startswith(axis + "[")]
            for axis in ("col", "row", "bank")]
    columns, rows, banks = map(len, axes)
    header = recording.header
    bus_log2 = int(header["bus_bytes"]).bit_length() - 1
    line_log2 = words[8] & 0xff
    assert words[8] == int.from_bytes(bytes([
        int(header["generation"].removeprefix("DDR")), 0, banks, rows, columns, bus_log2,
        int(header["burst_length"]), line_log2]), "big"), f"word 8 of a report is {words[8]:016x}"
    assert words[12:] == sum(axes, []), "the address map of a report"
    return 1 << line_log2
