#!/usr/bin/env python3
"""Writes the accesses to memory that follow from the registers of single steps of a static program.

    stepped_accesses.py PROGRAM STEPS

STEPS has for each step 19 numbers of 8 bytes: rip, the general registers in the order of their numbers, and the bases of
fs and gs (cli/tests/suite/trace/steps.c). This program shares no code with hmtt: it takes the code from the ELF file, and decodes
it with capstone.

It prints a line for each access: `pc R|W address size`, numbers but the size in hexadecimal. The reads of an instruction precede its
writes. Each element of a string instruction is a step. A step whose addresses do not follow from operands prints `pc ?`.
"""

import struct
import sys

import capstone
from capstone import x86

REGISTERS = [x86.X86_REG_RAX, x86.X86_REG_RCX, x86.X86_REG_RDX, x86.X86_REG_RBX, x86.X86_REG_RSP, x86.X86_REG_RBP,
             x86.X86_REG_RSI, x86.X86_REG_RDI, x86.X86_REG_R8, x86.X86_REG_R9, x86.X86_REG_R10, x86.X86_REG_R11,
             x86.X86_REG_R12, x86.X86_REG_R13, x86.X86_REG_R14, x86.X86_REG_R15]
PLACES = {register: number + 1 for number, register in enumerate(REGISTERS)}
RCX, RSP, RBP, FS = 2, 5, 6, 17
STEP = struct.Struct("<19Q")
MASK = (1 << 64) - 1
# What names memory, and does not access it.
ACCESSES_NOTHING = ("lea", "nop", "endbr", "prefetch", "fnop")
# What accesses memory that its operand does not describe: bits by number, saved states, several addresses.
UNDESCRIBED = ("xsave", "xrstor", "fxsave", "fxrstor", "bt", "vpgather", "vgather", "xlat")
READS_ONLY = ("cmp", "test", "ucomis", "comis", "push", "call", "jmp")
# Written without being read, whatever the decoder says.
WRITES_ONLY = ("set", "pop", "fnst", "fst", "fist", "fbst", "stmxcsr")
MOVES = ("mov", "vmov")
READ_AND_WRITTEN = ("cmpxchg", "xchg", "xadd")


class Instruction:
    """The accesses of an instruction: whether each is a write, its size, segment, base, index, scale, displacement."""

    def __init__(self, one):
        name = one.mnemonic.split()[-1]
        is_string = name.rstrip("bwdq") in ("movs", "cmps", "stos", "scas", "lods") and not any(
            operand.type == x86.X86_OP_REG and operand.reg not in
            (x86.X86_REG_AL, x86.X86_REG_AX, x86.X86_REG_EAX, x86.X86_REG_RAX) for operand in one.operands)
        operands = list(one.operands)
        memory = [operand for operand in operands if operand.type == x86.X86_OP_MEM]
        self.is_repeated = is_string and one.prefix[0] in (0xf2, 0xf3) and bool(memory)
        self.accesses, self.is_described = [], True
        if name.startswith(ACCESSES_NOTHING):
            return
        self.is_described = not (memory and name.startswith(UNDESCRIBED) and not name.startswith("bts") or
                                 memory and name in ("bt", "bts", "btr", "btc"))
        # The decoder's sizes of operands of 8 bytes, and of pushed addresses, are those of the stack's.
        for operand in memory:
            part = self.operand(one, operand)
            reads, writes = operand.access & capstone.CS_AC_READ, operand.access & capstone.CS_AC_WRITE
            # The decoder does not know this of all instructions: the first operand is the destination.
            if operand is not operands[0] and len(memory) == 1:
                reads, writes = True, False
            if name.startswith(READS_ONLY):
                reads, writes = True, False
            if name.startswith(WRITES_ONLY):
                reads, writes = False, True
            if name.startswith(READ_AND_WRITTEN):
                reads, writes = True, True
            if name.startswith(MOVES) and operand is operands[0] and len(memory) == 1:
                reads, writes = False, True
            self.accesses += [(False, *part)] * bool(reads) + [(True, *part)] * bool(writes)
        if name.startswith(("push", "call")):
            self.accesses.append((True, 8, 0, RSP, 0, 0, -8))
        elif name.startswith("pop") and name != "popcnt" or name == "ret":
            self.accesses.insert(0, (False, 8, 0, RSP, 0, 0, 0))
        elif name == "leave":
            self.accesses.append((False, 8, 0, RBP, 0, 0, 0))
        if name.startswith("pop") and memory and name != "popcnt":
            # The address is computed after the stack pointer was raised.
            self.accesses = [part[:6] + (part[6] + 8,) if part[0] and part[3] == RSP else part for part in self.accesses]
        self.accesses.sort(key=lambda part: part[0])

    @staticmethod
    def operand(one, operand):
        memory = operand.mem
        segment = {x86.X86_REG_FS: FS, x86.X86_REG_GS: FS + 1}.get(memory.segment, 0)
        base, displacement = PLACES.get(memory.base, 0), memory.disp
        if memory.base in (x86.X86_REG_RIP, x86.X86_REG_EIP):
            base, displacement = 0, one.address + one.size + memory.disp
        elif memory.base and not base or memory.index and memory.index not in PLACES:
            raise ValueError(f"{one.address:x}: {one.mnemonic} {one.op_str}: registers are not known")
        return operand.size, segment, base, PLACES.get(memory.index, 0), memory.scale, displacement


def loaded(path):
    """The loaded parts of an ELF file: first address, bytes."""
    with open(path, "rb") as file:
        all_bytes = file.read()
    (at,), (size, count) = struct.unpack_from("<Q", all_bytes, 32), struct.unpack_from("<HH", all_bytes, 54)
    heads = [struct.unpack_from("<IIQQQQ", all_bytes, at + size * number) for number in range(count)]
    return [(start, all_bytes[offset:offset + length]) for kind, _, offset, start, _, length in heads if kind == 1]


def main():
    program, path = sys.argv[1:]
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    parts, known = loaded(program), {}
    write = sys.stdout.write
    with open(path, "rb") as file:
        while step := file.read(STEP.size):
            values = STEP.unpack(step)
            pc = values[0]
            one = known.get(pc)
            if one is None:
                code = next(all_bytes[pc - start:][:15] for start, all_bytes in parts if start <= pc < start + len(all_bytes))
                one = known[pc] = Instruction(next(decoder.disasm(code, pc)))
            if not one.is_described:
                write(f"{pc:x} ?\n")
                continue
            if one.is_repeated and values[RCX] == 0:
                continue
            for is_write, size, segment, base, index, scale, displacement in one.accesses:
                address = displacement
                if base:
                    address += values[base]
                if index:
                    address += values[index] * scale
                if segment:
                    address += values[segment]
                write(f"{pc:x} {'W' if is_write else 'R'} {address & MASK:x} {size}\n")


if __name__ == "__main__":
    main()
