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
        assert payload[14] >> 4 == 3, f"version {payload[14] >> 4}"
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


def check_analysis(lines, pages):
    """The only dump of a capture (section *Analysis*). lines: those of the trace that begin with #; pages: the
    page of each access that it counts."""
    assert lines and lines[0].startswith("# interval ") and lines[0].endswith(" all"), lines[:1]
    records = [line.split()[1:] for line in lines]
    counts = {(group, int(index)): int(value)
              for kind, *rest in records if kind == "count" for _, group, index, value in [rest]}
    closing = counts.pop(("other", 15))
    assert closing == len(lines) - 1, f"a dump of {len(lines)} records that closes with {closing}"
    hot = {int(page, 16): (int(least), int(most), int(votes))
           for kind, *rest in records if kind == "hot_page" for _, page, least, most, _, votes in [rest]}
    assert hot, "no hot pages"
    skipped = counts.get(("other", 0), 0)
    for page, (least, most, _) in hot.items():
        accesses = pages.count(page)
        assert least <= accesses <= most + skipped, \
            f"page {page:x} has {accesses} accesses, not {least} to {most + skipped}"
    votes = sum(votes for _, _, votes in hot.values())
    assert votes + skipped == len(pages), f"{votes} accesses in buckets, {skipped} skipped, of {len(pages)}"
    outcomes = sum(value for (group, _), value in counts.items() if group.startswith("row_"))
    assert outcomes + counts.get(("other", 1), 0) == len(pages), f"{outcomes} row outcomes of {len(pages)}"
