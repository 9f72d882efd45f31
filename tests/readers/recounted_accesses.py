#!/usr/bin/env python3
"""Recounts what a selective trace of a static program tells of its full trace.

    recounted_accesses.py PROGRAM FULL.lackey SELECTIVE.lackey OMEGA CHUNK

The traces are two of the same accesses, as `hmtt convert --to lackey` writes them; the selective one was recorded with
`--all-blocks --equality versions`. This program shares no code with hmtt: it finds blocks in the executed instructions,
takes the code from the ELF file, and decodes it with capstone. By the published rule, accesses of a block are equal if
they name the same registers, of the same versions, and the same displacement (MASCOTS 2016, DOI 10.1109/MASCOTS.2016.69).

It prints one JSON object with the names of `hmtt trace evaluate`, for all executions, and in the same way `blocks` for executed
blocks once each, and `functions` for all executions of each function. Accesses that lackey's lines lack, since their addresses are
not known, are not counted. Exit code 0: counted; 1: the traces contradict each other or the rule.
"""

import bisect
import json
import struct
import sys
from collections import Counter
from itertools import zip_longest

import capstone
from capstone import x86

LONGEST_BLOCK = 64
SEGMENTS = {x86.X86_REG_FS: "fs"}
PUSHES = {"push", "pushfq", "call"}
POPS = {"pop", "popfq", "ret"}
WHOLE = {}
for names in ("rax eax ax al ah", "rcx ecx cx cl ch", "rdx edx dx dl dh", "rbx ebx bx bl bh", "rsp esp sp spl",
              "rbp ebp bp bpl", "rsi esi si sil", "rdi edi di dil"):
    WHOLE.update((name, names.split()[0]) for name in names.split())
for number in range(8, 16):
    WHOLE.update((f"r{number}{part}", f"r{number}") for part in ("", "d", "w", "b"))


class Code:
    """The code of a program, decoded when it is needed."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        (at,), (size, count) = struct.unpack_from("<Q", self.bytes, 32), struct.unpack_from("<HH", self.bytes, 54)
        heads = [struct.unpack_from("<IIQQQQ", self.bytes, at + size * number) for number in range(count)]
        self.loaded = [(start, start + length, offset) for kind, _, offset, start, _, length in heads if kind == 1]
        self.decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.decoder.detail = True
        self.known = {}
        self.functions = sorted(self.symbols())

    def symbols(self):
        """Start, end and name of each function in the table of symbols."""
        (at,), (size, count) = struct.unpack_from("<Q", self.bytes, 40), struct.unpack_from("<HH", self.bytes, 58)
        sections = [struct.unpack_from("<IIQQQQII", self.bytes, at + size * number) for number in range(count)]
        for _, kind, _, _, offset, length, link, _ in sections:
            for place in range(offset, offset + length, 24) if kind == 2 else ():
                name, info, _, _, start, extent = struct.unpack_from("<IBBHQQ", self.bytes, place)
                if info & 15 == 2:
                    name += sections[link][4]
                    yield start, start + extent, self.bytes[name:self.bytes.index(0, name)].decode()

    def function(self, pc):
        """The name of the function that has an address; None if several functions have it, or none."""
        last = bisect.bisect_right(self.functions, (pc, float("inf")))
        found = [name for start, end, name in self.functions[max(last - 8, 0):last] if start <= pc < end]
        return found[0] if len(found) == 1 else None

    def at(self, pc):
        if pc not in self.known:
            offset = next(offset + pc - start for start, end, offset in self.loaded if start <= pc < end)
            self.known[pc] = Instruction(next(self.decoder.disasm(self.bytes[offset:offset + 15], pc)))
        return self.known[pc]


class Instruction:
    """What an instruction addresses, and the registers that it writes."""

    def __init__(self, decoded):
        self.name = decoded.mnemonic.split()[-1].removeprefix("notrack ")
        self.next = decoded.address + decoded.size
        flow = (capstone.CS_GRP_JUMP, capstone.CS_GRP_CALL, capstone.CS_GRP_RET, capstone.CS_GRP_BRANCH_RELATIVE)
        self.ends_block = any(decoded.group(one) for one in flow) or self.name in ("syscall", "loop", "loope", "loopne")
        operands = [one for one in decoded.operands if one.type == x86.X86_OP_MEM]
        is_string = self.name.rstrip("bwdq") in ("movs", "cmps", "stos", "scas", "lods")
        self.is_repeated = is_string and decoded.prefix[0] in (0xf2, 0xf3) and bool(operands)
        self.operands = [self.operand(decoded, one.mem) for one in operands]
        written = (decoded.reg_name(register) for register in decoded.regs_access()[1])
        self.written = {WHOLE[name] for name in written if name in WHOLE}

    def operand(self, decoded, memory):
        """Segment, base, index with its scale, and displacement. An address relative to rip is one in the program."""
        base, index = (decoded.reg_name(one) if one else None for one in (memory.base, memory.index))
        if base in ("rip", "eip"):
            return None, None, None, self.next + memory.disp
        return SEGMENTS.get(memory.segment), base, index and (index, memory.scale), memory.disp

    def address(self, is_write):
        """The operand that is read or written: of those that name none, the stack."""
        if is_write and self.name in PUSHES:
            return None, "rsp", None, -8
        if not is_write and self.name in POPS:
            return None, "rsp", None, 0
        if not is_write and self.name == "leave":
            return None, "rbp", None, 0
        if len(self.operands) == 2 and self.name.startswith("movs"):
            return next(one for one in self.operands if one[1][1:] == ("di" if is_write else "si"))
        if len(self.operands) != 1:
            raise ValueError(f"it is not known what {self.name} before {self.next:x} accesses")
        return self.operands[0]


def instructions(path, code):
    """Yields executed instructions, each with its accesses as (is_write, address). Repetitions are one execution."""
    last, accesses = None, []
    with open(path, encoding="ascii") as file:
        for line in file:
            kind, place = line[:2].strip(), line[3:].split(",")[0]
            if kind == "I":
                pc = int(place, 16)
                if pc == last and code.at(pc).is_repeated:
                    continue
                if last is not None:
                    yield last, accesses
                last, accesses = pc, []
            else:
                address = int(place, 16)
                accesses += [(write == "S", address) for write in ("LS" if kind == "M" else kind)]
    yield last, accesses


def blocks(path, code):
    """Yields executed blocks: instructions up to a transfer, or as many as a block may have."""
    block = []
    for pc, accesses in instructions(path, code):
        if block and (len(block) == LONGEST_BLOCK or code.at(block[-1][0]).next != pc):
            yield block
            block = []
        block.append((pc, accesses))
        if code.at(pc).ends_block:
            yield block
            block = []
    if block:
        yield block


def expressions(block, code):
    """The expressions of a block's accesses, by instruction and direction."""
    versions, found = Counter(), {}
    versioned = lambda name: name and (name, versions[WHOLE[name]])
    for pc, accesses in block:
        one = code.at(pc)
        for is_write in {is_write for is_write, _ in accesses if not one.is_repeated}:
            segment, base, index, displacement = one.address(is_write)
            index = index and (versioned(index[0]), index[1])
            found[pc, is_write] = (segment, versioned(base), index, displacement)
        versions.update(one.written)
    return found


def distance_is_zero(one, other, chunk):
    """Whether two expressions of the same template are probably in the same chunk."""
    return one[:3] == other[:3] and abs(one[3] - other[3]) < chunk


def chosen(full, some):
    """Which accesses of an instruction were recorded."""
    rest = list(some)
    taken = [bool(rest) and rest[0] == one and bool(rest.pop(0)) for one in full]
    if rest:
        raise ValueError(f"recorded accesses are not among all: {full} {some}")
    return taken


def count(block, selected, found, code, omega, chunk):
    """Counts what one execution of a block has."""
    accesses, recorded, sums = [], {}, Counter()
    for (pc, full), (other, some) in zip(block, selected, strict=True):
        if pc != other:
            raise ValueError(f"other instructions are executed: {pc:x} {other:x}")
        if code.at(pc).is_repeated:
            operands = len(code.at(pc).operands)
            sums.update(all_accesses=operands, recorded_accesses=operands, represented_accesses=operands)
            continue
        for (is_write, address), is_chosen in zip(full, chosen(full, some)):
            expression = found[pc, is_write]
            accesses.append((expression, address))
            if is_chosen:
                if expression in recorded:
                    raise ValueError(f"equal accesses are recorded twice, at {pc:x}")
                recorded[expression] = address
    classes = len({expression for expression, _ in accesses})
    if len(recorded) != classes * omega // 100:
        raise ValueError(f"{len(recorded)} of {classes} classes are recorded at {block[0][0]:x}")
    sums.update(all_accesses=len(accesses), recorded_accesses=len(recorded))
    for expression, address in accesses:
        if expression in recorded:
            if recorded[expression] != address:
                raise ValueError(f"equal expressions have addresses {address:x} and {recorded[expression]:x}")
            sums["represented_accesses"] += 1
            continue
        near = [at for other, at in recorded.items() if distance_is_zero(expression, other, chunk)]
        if near:
            sums["near_accesses"] += 1
            sums["false_accesses"] += all(at // chunk != address // chunk for at in near)
    return sums


NAMES = ["all_accesses", "recorded_accesses", "represented_accesses", "near_accesses"]


def stated(sums, names=NAMES):
    return {name: sums[name] for name in names}


def main():
    program, full, selective, omega, chunk = sys.argv[1:]
    code, known = Code(program), {}
    sums, once, functions = Counter(), Counter(), {}
    for block, selected in zip_longest(blocks(full, code), blocks(selective, code)):
        key = (block[0][0], len(block))
        is_new = key not in known
        # Of a conditional access, as that of a string, the first execution may have none.
        if key not in known or any((pc, one[0]) not in known[key] for pc, all in block for one in all):
            known.setdefault(key, {}).update(expressions(block, code))
        counts = count(block, selected, known[key], code, int(omega), int(chunk))
        sums.update(counts)
        functions.setdefault(code.function(key[0]), Counter()).update(counts)
        if is_new:
            once.update(counts)
    named = {name: stated(counts) for name, counts in functions.items() if name}
    json.dump(stated(sums, [*NAMES, "false_accesses"]) | {"blocks": stated(once), "functions": named}, sys.stdout)


if __name__ == "__main__":
    main()
