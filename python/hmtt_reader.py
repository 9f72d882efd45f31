#!/usr/bin/env python3
"""Captures of an HMTT card to text: a second reader, written from docs/format.md alone. As a module: docs/python.md.

    hmtt_reader.py CAPTURE.pcapng              print the trace
    hmtt_reader.py --check-document FORMAT.md  decode the worked example and compare

Exit code 1: the file cannot be read, or the document does not say what its example holds.
"""

import struct
import sys

DESTINATION = bytes.fromhex("02484d545400")
DATA, INFO, END, HEARTBEAT = 0, 1, 2, 3
FAULTS = {1: "read_idle", 2: "write_idle", 3: "act_open", 4: "ref_open", 5: "cmd_in_rfc",
          6: "mrs_open", 7: "reserved", 8: "zq_open", 9: "cmd_in_xs", 10: "cmd_in_mrd",
          11: "cmd_in_rp", 12: "rw_in_rcd", 13: "refresh_overdue", 14: "multi_rank",
          20: "clock_lost", 21: "command_lost"}


GROUPS = {0: "row_hits", 1: "row_misses", 2: "row_conflicts", 3: "reuse", 4: "other"}


def bits(value, high, low):
    """Bits high..low of value, both included."""
    return value >> low & (1 << high - low + 1) - 1


def nearest(value, modulus, reference):
    """The number nearest to reference, but not negative, that is value modulo modulus."""
    ahead = (value - reference) % modulus
    found = reference + (ahead if ahead < modulus // 2 else ahead - modulus)
    return found if found >= 0 else value


def packets(data):
    """The frames of a pcapng file: section headers, and enhanced or simple packets."""
    if data[:4] != b"\x0a\x0d\x0d\x0a":
        raise ValueError("not a pcapng file")
    at, order = 0, "<"
    while at + 12 <= len(data):
        if data[at:at + 4] == b"\x0a\x0d\x0d\x0a":
            order = ">" if data[at + 8:at + 12] == b"\x1a\x2b\x3c\x4d" else "<"
        kind, length = struct.unpack_from(order + "II", data, at)
        if length < 12 or at + length > len(data):
            return  # the capture was cut within this block
        if kind == 6:
            captured, = struct.unpack_from(order + "I", data, at + 20)
            yield data[at + 28:at + 28 + captured]
        elif kind == 3:
            original, = struct.unpack_from(order + "I", data, at + 8)
            yield data[at + 12:at + 12 + min(original, length - 16)]
        at += length


def readable(frame):
    """Whether a card's frame can be read."""
    version, kind, count = frame[14] >> 4, frame[14] & 15, frame[15]
    if version != 3 or kind > HEARTBEAT or not 2 <= count <= 187 or len(frame) < 18 + 8 * count:
        return False
    if kind != HEARTBEAT:
        return True
    flags, clocks = struct.unpack_from(">2Q", frame, 18)
    return count == 2 and not any(frame[16:18]) and not bits(flags, 62, 16) and not bits(clocks, 63, 48)


def sessions(frames):
    """The frames of each session by their counter, unwrapped; copies and other traffic left out."""
    session, newest, ended = {}, None, False
    for frame in frames:
        if len(frame) < 18 or frame[:7] != DESTINATION + b"\x02" or frame[12:14] != b"\x88\xb5":
            continue
        count, kind = int.from_bytes(frame[7:12], "big"), frame[14] & 15
        counter = count if newest is None else nearest(count, 1 << 40, newest)
        first = count == 0 and kind in (INFO, HEARTBEAT)
        there = session.get(counter, frame)
        if readable(there) and not readable(frame):
            continue  # it has the place of a frame only if that does not come
        if readable(frame) and not readable(there):
            session[counter] = there = frame
        if session and (counter < newest - 1024
                        or count < 16 and counter < newest - 80
                        or first and (ended and counter < newest or counter > newest + (1 << 20))
                        or there != frame):
            yield session
            session, newest, counter = {}, None, count
        session.setdefault(counter, frame)
        newest = counter if newest is None else max(newest, counter)
        ended = {DATA: False, END: True}.get(kind, ended)
    if session:
        yield session


class Reader:
    """Decodes the frames of one session, in order."""

    def __init__(self):
        self.sync_clock = None  # clock of the last sync, beyond 48 bits
        self.reached = None     # (accesses, lost, clock) after the frames read so far
        self.window = None      # base of the tag window
        self.tck_ps = None      # picoseconds of a clock
        self.missing = 0        # frames missing before heartbeats
        self.beat = (1, 0)      # DDR clock runs, losses, as of the last heartbeat
        self.lost_clock = False # the DDR clock was lost since the counts began
        self.ended = False      # the last frame with counts was an end frame

    def frame(self, frame, missing):
        """The lines of one frame; missing: how many frames before it did not come."""
        kind, count = frame[14] & 15, frame[15]
        if not readable(frame):
            yield "# unreadable frame"
            return
        words = struct.unpack_from(f">{count}Q", frame, 18)
        if kind == HEARTBEAT:
            self.missing += missing  # the next sync states the lost accesses
            yield from self.heartbeat(*words[:2])
            return
        missing, self.missing = missing + self.missing, 0
        lost, before, clock = bits(words[1], 63, 40), bits(words[1], 39, 0), bits(words[0], 47, 0)
        yield from self.gap(kind, missing, before, lost, clock)
        self.ended = kind == END
        self.sync_clock = self.clock = self.extended(clock)
        self.unit, self.segment, self.accesses = bits(words[0], 63, 60), bits(words[0], 59, 48), 0
        yield from self.records(words[2:]) if kind == DATA else self.report(kind, words[2:])
        # What a report's clock has passed may still be waiting in the card, so it bounds no gap.
        after = self.reached[2] if self.reached and kind != DATA else self.clock
        self.reached = ((before + self.accesses) % (1 << 40), lost, after)

    def heartbeat(self, flags, transmit_clocks):
        """What changed of the DDR clock."""
        running, losses = bits(flags, 63, 63), bits(flags, 15, 0)
        if (running, losses) != self.beat:
            what = "lost" if not running else "found again" if losses == self.beat[1] else \
                "lost and found again"
            self.lost_clock |= losses != self.beat[1]
            yield (f"# DDR clock {what} at {bits(transmit_clocks, 47, 0) * 8e-6:.3f} ms of the "
                   f"transmit clock (losses since power-on: {losses})")
        self.beat = running, losses

    def gap(self, kind, frames, accesses, records, clock):
        """What is missing between the frames so far and a sync."""
        was_accesses, was_records, after = self.reached or (0, 0, None)
        anew = self.lost_clock and kind == INFO and (accesses, records) == (0, 0) and \
            ((was_accesses, was_records) != (0, 0) or clock < (self.sync_clock or 0))
        accesses, records = accesses - was_accesses, records - was_records
        if self.reached and (anew or accesses % (1 << 40) >= 1 << 39 or records % (1 << 24) >= 1 << 23):
            if not self.ended:
                yield "# no end frame"
            beat = self.beat
            self.__init__()
            self.beat = beat
            accesses, records, after = accesses + was_accesses, records + was_records, None
            yield "# card restarted"
        accesses, records = accesses % (1 << 40), records % (1 << 24)
        if frames or accesses or records:
            place = "at start" if after is None else f"after clock {after}"
            place += f", before clock {self.extended(clock)}"
            yield f"# gap: {frames} frames, {records} records, {accesses} accesses, {place}"

    def extended(self, clock):
        """A clock of 48 bits, put near the clock of the last sync."""
        return clock if self.sync_clock is None else nearest(clock, 1 << 48, self.sync_clock)

    def address(self, number):
        return (self.segment << 26 | number) << self.unit

    def records(self, words):
        words = iter(words)
        for word in words:
            if bits(word, 63, 58) == 63:
                line = self.word_record(word, words)
                if line is None:
                    yield "# frame unreadable from here"
                    return
                yield line
                yield from self.window_access(word)
                continue
            if bits(word, 31, 26) == 63:
                yield "# frame unreadable from here"
                return
            for half in (word >> 32, word & 0xffffffff):
                write, delta = bits(half, 31, 31), bits(half, 30, 26)
                if delta != 31:
                    self.clock, self.accesses = self.clock + delta, self.accesses + 1
                    yield f"{self.clock} {'RW'[write]} {self.address(bits(half, 25, 0)):x}"
                elif bits(half, 25, 25):
                    self.segment = bits(half, 24, 13)
                    self.clock += bits(half, 12, 0)
                else:
                    self.clock += bits(half, 24, 0)

    def word_record(self, word, words):
        """The line of a record of whole words; None if the record is invalid."""
        kind = bits(word, 57, 54)
        if kind in (1, 2, 4):
            self.clock += bits(word, 53, 38)
        if kind == 1:
            if bits(word, 36, 36):
                return self.mark(bits(word, 31, 0))
            self.accesses += 1
            return f"# tag {self.clock} {'RW'[bits(word, 35, 35)]} {bits(word, 31, 0):x}"
        if kind == 2 and bits(word, 37, 32) in FAULTS:
            return f"# fault {self.clock} {FAULTS[bits(word, 37, 32)]} {bits(word, 31, 26)}"
        if kind == 3:
            self.clock += bits(word, 53, 46)
            reads, writes, duration = bits(word, 19, 15), bits(word, 14, 10), bits(word, 9, 0)
            return self.page(bits(word, 45, 20), reads, writes, duration)
        if kind == 6:
            part = bits(word, 53, 48)
            return f"# interval {self.extended(bits(word, 47, 0))} {'all' if part == 63 else f'part {part}'}"
        if kind == 7 and bits(word, 45, 42) in GROUPS:
            group, index = GROUPS[bits(word, 45, 42)], bits(word, 41, 32)
            return f"# count {bits(word, 53, 46)} {group} {index} {bits(word, 31, 0)}"
        second = next(words, None) if kind in (4, 5, 8) else None
        if second is None:
            return None
        if kind == 8:
            least, votes = second >> 32, bits(second, 31, 0)
            return (f"# hot_page {bits(word, 53, 46)} {bits(word, 27, 0) << 12:x}"
                    f" {least} {(least + votes) // 2} of {votes}")
        if kind == 4:
            reads, writes, duration = second >> 44, bits(second, 43, 24), bits(second, 23, 0)
            return self.page(bits(word, 37, 12), reads, writes, duration)
        partial = next(words, None) if bits(word, 48, 48) else 0
        if partial is None:
            return None
        return self.slice(word, second >> 32, bits(second, 31, 0), partial)

    def mark(self, register):
        name = {0x60: "kernel_enter", 0x61: "kernel_exit"}.get(register, "unknown")
        name = f"free {register - 0x100}" if 0x100 <= register <= 0x1ff else name
        return f"# mark {self.clock} {register:x} {name}"

    def window_access(self, word):
        """A tag of the window is an access as well. Only a report states its address."""
        if bits(word, 57, 54) == 1 and not bits(word, 36, 36) and self.window is not None:
            value = bits(word, 31, 0)
            if self.window % (1 << value.bit_length()) == 0:
                yield f"{self.clock} {'RW'[bits(word, 35, 35)]} {self.window + value:x}"

    def page(self, number, reads, writes, duration):
        self.accesses += reads + writes
        return f"{self.clock} P {self.address(number):x} {reads} {writes} {duration}"

    def slice(self, word, reads, writes, partial):
        self.accesses += reads + writes if self.unit == 0 else 0
        code, is_partial = bits(word, 53, 49), bits(word, 48, 48)
        length = bits(partial, 31, 0) if is_partial else "?"
        if not is_partial and code < 19 and self.tck_ps:
            picoseconds = (1, 2, 5)[code % 3] * 10 ** (code // 3 + 6)
            length = (picoseconds + self.tck_ps // 2) // self.tck_ps
        start = self.extended(bits(word, 47, 0))
        return f"{start} F {length} {reads} {writes}{' partial' if is_partial else ''}"

    def report(self, kind, words):
        if len(words) < 10 or bits(words[0], 63, 56) != 3 or fnv1a(words[6:]) != words[5]:
            yield "# unreadable report"
            return
        self.tck_ps = words[7] >> 32
        tag_window_on, size = bits(words[0], 50, 50), bits(words[8], 63, 56)
        self.window = bits(words[4], 39, 0) >> size << size if tag_window_on else None
        name = "end" if kind == END else "info"
        mode = {0: "line", 1: "page", 2: "frequency", 3: "analysis"}.get(bits(words[0], 47, 44), "unknown")
        yield (f"# {name} {self.clock} mode {mode} reads {words[1]} writes {words[2]}"
               f" faults {words[3] >> 32} tags {bits(words[3], 31, 0)} digest {words[5]:016x}")


def fnv1a(words):
    """The 64-bit FNV-1a hash of the bytes of words."""
    digest = 0xcbf29ce484222325
    for byte in struct.pack(f">{len(words)}Q", *words):
        digest = (digest ^ byte) * 0x100000001b3 % (1 << 64)
    return digest


def trace(frames):
    """The lines of a whole capture."""
    for index, session in enumerate(sessions(frames)):
        if index:
            yield "# card restarted"
        reader, expected = Reader(), min(session)
        for counter in sorted(session):
            yield from reader.frame(session[counter], counter - expected)
            expected = counter + 1
        if not any(session[counter][14] & 15 == END for counter in session):
            yield "# no end frame"


def accesses(frames):
    """The accesses of a capture: clock, `R` or `W`, physical byte address."""
    for line in trace(frames):
        fields = line.split(" ")
        if len(fields) == 3 and fields[1] in ("R", "W"):
            yield int(fields[0]), fields[1], int(fields[2], 16)


def check_document(path):
    """Decodes the `hex` blocks of a document as one trace; a `decoded` block after each says what
    must come out."""
    reader, kind, body, frame, checked = Reader(), None, [], None, 0
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if kind is None and line.startswith("```"):
            kind, body = line[3:] or "plain", []
        elif kind is not None and line == "```":
            if kind == "hex":
                frame = bytes.fromhex("".join(body))
            elif kind == "decoded":
                found = list(reader.frame(frame, 0))
                if found != body:
                    sys.exit(f"{path}: the frame says\n" + "\n".join(found) + "\nnot\n" + "\n".join(body))
                checked += 1
            kind = None
        elif kind is not None:
            body.append(line)
    if not checked:
        sys.exit(f"{path}: no worked example found")
    print(f"{checked} worked frames agree")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--check-document":
        check_document(arguments[1])
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        with open(arguments[0], "rb") as capture:
            for line in trace(packets(capture.read())):
                print(line)
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        sys.stderr.close()
    except (OSError, ValueError, struct.error) as error:
        sys.exit(f"hmtt_reader: {error}")
