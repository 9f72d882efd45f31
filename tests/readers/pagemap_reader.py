"""Reads /proc/PID/pagemap of a process, and HMTT's 13-byte records, independently of HMTT.

    pagemap_reader.py frames PID ADDRESS...     prints the number of the frame of each address, or 0
    pagemap_reader.py records FILE              prints what each record of the published layout says
    pagemap_reader.py write FILE RECORD...      writes records given as set|free:PID:PAGE:FRAME

Sources: Linux, Documentation/admin-guide/mm/pagemap.rst; README.md and trace.cpp of ASG-ICT/SPEC2017-Trace.
"""

import mmap
import struct
import sys

SET, FREES = 0xEC, (0xFC, 0x22, 0x33)
MARKS = b"@#&$"


def frames(pid, addresses):
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as entries:
        for address in addresses:
            entries.seek(address // mmap.PAGESIZE * 8)
            (entry,) = struct.unpack("<Q", entries.read(8))
            present = entry >> 63
            print(entry & ((1 << 55) - 1) if present else 0)


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        if data[at] in MARKS and data[at : at + 16] == data[at : at + 1] * 16:
            print("mark", chr(data[at]))
            at += 16
            continue
        magic, pid = struct.unpack_from("<BI", data, at)
        (numbers,) = struct.unpack_from("<Q", data, at + 5)
        kind = "set" if magic == SET else "free" if magic in FREES else "other"
        print(kind, pid, f"{numbers >> 24:x}", f"{numbers & 0xFFFFFF:x}")
        at += 13


def write(path, lines):
    with open(path, "wb") as file:
        for line in lines:
            kind, pid, page, frame = line.split(":")
            magic = SET if kind == "set" else FREES[1]
            numbers = int(page, 16) << 24 | int(frame, 16)
            file.write(struct.pack("<BIQ", magic, int(pid), numbers))


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "frames":
        frames(int(rest[0]), [int(one, 16) for one in rest[1:]])
    elif command == "records":
        records(rest[0])
    else:
        write(rest[0], rest[1:])
