#!/usr/bin/env python3
"""Computes the results of hmtt's analyses from a recording's truth, as docs/analysis.md defines them.

    analyses.py NAME.cmd.gz NAME.truth.gz SLICE_NS TOP

NAME.cmd.gz has the description of the memory in its header, and NAME.truth.gz a line `clock R|W address` for each access. Prints one
JSON object: for each command what `hmtt COMMAND --json` has under its name, and `source`, what is known of the memory. This program
shares no code with hmtt.
"""

import gzip
import json
import re
import sys
from collections import Counter

WINDOW = 4
LEAST_CHANGE = 1.5
OPEN_STREAMS = 16
NEAR_LINES = 64
# Caches whose misses are stated.
SIZES = (32 << 10, 1 << 20, 32 << 20)
SHARES = (50, 90, 99, 100)


def header(path):
    """What the header of a recording says."""
    values = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.startswith("---"):
                break
            key, _, value = line.strip().partition("=")
            values[key] = value
    return values


def truth(path):
    """Clock, whether it is a write, and address of each access."""
    with gzip.open(path, "rt") as lines:
        fields = [line.split() for line in lines if not line.startswith("#")]
    return [(int(clock), kind == "W", int(address, 16)) for clock, kind, address in fields]


def source(about):
    """What is known of the memory."""
    tck_ps = round(1000 * float(re.search(r"tCK ([0-9.]+) ns", about["speed"]).group(1)))
    bus = int(about["bus_bytes"])
    # With a burst length that each command selects, the bytes of an access are not known.
    is_selected = "fly" in about.get("burst_length", "").lower() or "otf" in about.get("burst_length", "").lower()
    return {
        "address_space": "physical",
        "tck_ps": tck_ps,
        "unit_bytes": None if is_selected else int(about["burst_bytes"]),
        "capacity_bytes": int(about["device_bytes"]),
        "bus_bytes": bus,
        "bus_bytes_per_second": 2 * bus / (tck_ps * 1e-12),
    }


def ranges(numbers):
    """Counts numbers in ranges that begin at powers of two: 0, 1, 2 to 3, 4 to 7..."""
    counts = Counter(number.bit_length() for number in numbers)
    return [((1 << bits) >> 1, (1 << bits) - 1, counts[bits]) for bits in sorted(counts)]


def slices(accesses, width):
    """The accesses of each slice of clocks that has any."""
    found = {}
    for access in accesses:
        found.setdefault(access[0] // width, []).append(access)
    return sorted(found.items())


def stats(accesses, known, width):
    clocks = [clock for clock, _, _ in accesses]
    addresses = [address for _, _, address in accesses]
    count, unit = len(accesses), known["unit_bytes"]
    writes = sum(is_write for _, is_write, _ in accesses)
    duration = max(clocks) - min(clocks)
    seconds = duration * known["tck_ps"] * 1e-12
    rates = [
        {"slice": number, "reads": sum(not one[1] for one in inside), "writes": sum(one[1] for one in inside)}
        for number, inside in slices(accesses, width)
    ]
    return {
        "accesses": count,
        "reads": count - writes,
        "writes": writes,
        "access_bytes": count * (unit or 0),
        "unsized_accesses": 0 if unit else count,
        "page_run_accesses": 0,
        "frequency_accesses": 0,
        "pages": len({address >> 12 for address in addresses}),
        "lines": len({address >> 6 for address in addresses}),
        "thread_count": None,
        "duration_clocks": duration,
        "duration_seconds": seconds,
        "accesses_per_second": count / seconds,
        "bytes_per_second": count * unit / seconds if unit else None,
        "gap_count": 0,
        "lost_accesses": 0,
        "frequency": [of_time(known, width) | {"slices": rates}],
    }


def of_time(known, width):
    """How slices of clocks are described."""
    return {
        "source": 1,
        "slice_unit": "clocks",
        "slice_length": width,
        "slice_seconds": width * known["tck_ps"] * 1e-12,
    }


def hottest(counts, log2, top):
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [{"touches": count, "source": 1, "address": f"{unit << log2:#x}"} for unit, count in ordered[:top]]


def hot(accesses, top):
    pages = [address >> 12 for _, _, address in accesses]
    of_pages, of_lines = Counter(pages), Counter(address >> 6 for _, _, address in accesses)
    concentration = []
    for share in SHARES:
        sum_, taken = 0, 0
        for count in sorted(of_pages.values(), reverse=True):
            if sum_ * 100 >= share * len(pages):
                break
            sum_, taken = sum_ + count, taken + 1
        concentration.append({"share_percent": share, "pages": taken})
    runs, last = [], None
    for page in pages:
        if page == last:
            runs[-1] += 1
        else:
            runs.append(1)
        last = page
    return {
        "touches": len(pages),
        "page_run_accesses": 0,
        "pages": len(of_pages),
        "lines": len(of_lines),
        "hot_pages": hottest(of_pages, 12, top),
        "hot_lines": hottest(of_lines, 6, top),
        "concentration": concentration,
        "page_runs": [{"at_least": low, "at_most": high, "runs": count} for low, high, count in ranges(runs)],
    }


def distances(lines):
    """The reuse distance of each touch; None for the first ones. Counts the last touches of lines since the last one of this line."""
    tree = [0] * (len(lines) + 1)

    def add(at, number):
        while at <= len(lines):
            tree[at] += number
            at += at & -at

    def sum_to(at):
        total = 0
        while at > 0:
            total += tree[at]
            at -= at & -at
        return total

    last, found = {}, []
    for at, line in enumerate(lines, 1):
        before = last.get(line)
        found.append(None if before is None else sum_to(at - 1) - sum_to(before))
        if before is not None:
            add(before, -1)
        add(at, 1)
        last[line] = at
    return found


def reuse(accesses):
    found = distances([address >> 6 for _, _, address in accesses])
    again = [distance for distance in found if distance is not None]
    buckets = ranges(again)
    # Ranges up to the longest distance are listed, also those without touches.
    listed = {low: (high, count) for low, high, count in buckets}
    most = max((low for low, _, _ in buckets), default=0)
    all_ = [(0, 0)] + [(1 << bits, (2 << bits) - 1) for bits in range(64) if 1 << bits <= most]
    return {
        "unit_bytes": 64,
        "touches": len(found),
        "first_touches": len(found) - len(again),
        "sampling_rate": 1,
        "sampled_touches": len(found),
        "adjustment": 0,
        "distances": [
            {"distance_at_least": low, "distance_at_most": high, "touches": listed.get(low, (high, 0))[1]}
            for low, high in all_
        ],
    }


def mrc(accesses):
    """An LRU list of each size would miss these touches."""
    of = reuse(accesses)
    found = distances([address >> 6 for _, _, address in accesses])

    def cache(lines):
        misses = sum(distance is None or distance >= lines for distance in found)
        ratio = misses / len(found)
        return {"lines": lines, "cache_bytes": 64 * lines, "miss_ratio": ratio, "misses": misses}

    points, lines = [], 1
    longest = max((distance for distance in found if distance is not None), default=0)
    while True:
        points.append(cache(lines))
        if lines > longest:
            break
        lines *= 2
    kept = ("unit_bytes", "touches", "sampling_rate", "sampled_touches")
    return {key: of[key] for key in kept} | {"points": points, "sizes": [cache(size >> 6) for size in SIZES]}


def streams(accesses, top):
    """Each open stream is a list: last line, stride (0 if there is none yet), number of accesses."""
    table, used = [None] * OPEN_STREAMS, [0] * OPEN_STREAMS
    inside = repeated = 0
    strides, lengths = Counter(), []

    def end(stream):
        if stream and stream[2] > 2:
            lengths.append(stream[2])

    for now, (_, _, address) in enumerate(accesses, 1):
        line = address >> 6
        at = next((at for at, one in enumerate(table) if one and one[1] and one[0] + one[1] == line), None)
        if at is None:
            near = [(abs(one[0] - line), at) for at, one in enumerate(table) if one and abs(one[0] - line) <= NEAR_LINES]
            at = min(near)[1] if near else None
        if at is None:
            at = min(range(OPEN_STREAMS), key=lambda at: used[at])
            end(table[at])
            table[at] = None
        used[at] = now
        stream = table[at]
        if stream is None:
            table[at] = [line, 0, 1]
        elif stream[0] == line:
            repeated += 1
        elif stream[1] == line - stream[0]:
            inside += 1
            strides[64 * stream[1]] += 1
            table[at] = [line, stream[1], stream[2] + 1]
        else:
            end(stream)
            table[at] = [line, line - stream[0], 2]
    for stream in table:
        end(stream)
    ordered = sorted(strides.items(), key=lambda one: (-one[1], one[0]))
    return {
        "by_instruction": False,
        "accesses": len(accesses),
        "stream_accesses": inside,
        "repeated_accesses": repeated,
        "stream_share": inside / len(accesses),
        "strides": [{"stride_bytes": stride, "accesses": count} for stride, count in ordered[:top]],
        "other_strides": 0,
        "stream_lengths": [
            {"at_least": max(low, 3), "at_most": high, "streams": count} for low, high, count in ranges(lengths)
        ],
    }


def working_set(accesses, width):
    seen, sets = set(), []
    for number, inside in slices(accesses, width):
        pages = {address >> 12 for _, _, address in inside}
        sets.append({
            "slice": number,
            "accesses": len(inside),
            "frequency_accesses": 0,
            "pages": len(pages),
            "new_pages": len(pages - seen),
        })
        seen |= pages
    return sets


def changes(sets):
    """Indices of the slices with which phases begin."""
    rows = []
    for index, one in enumerate(sets):
        idle = one["slice"] - sets[index - 1]["slice"] - 1 if index else 0
        rows += [(0, 0, index)] * min(idle, WINDOW)
        rows.append((one["accesses"], one["pages"], index))
    rows = rows[1:-1]
    changes_ = []
    for boundary in range(1, len(rows)):
        before, after = rows[max(0, boundary - WINDOW):boundary], rows[boundary:boundary + WINDOW]
        ratios = []
        for column in (0, 1):
            one, other = (1 + sum(row[column] for row in part) / len(part) for part in (before, after))
            ratios.append(max(one, other) / min(one, other))
        changes_.append((max(ratios), boundary))
    taken = []
    for change, boundary in sorted(changes_, key=lambda one: (-one[0], one[1])):
        if change >= LEAST_CHANGE and all(abs(boundary - other) >= WINDOW for other in taken):
            taken.append(boundary)
    return sorted({rows[boundary][2] for boundary in taken})


def phases(accesses, known, width):
    sets = working_set(accesses, width)
    begins = [0] + [index for index in changes(sets) if index > 0]
    found = []
    for first, behind in zip(begins, begins[1:] + [len(sets)]):
        inside = sets[first:behind]
        count = sum(one["accesses"] for one in inside)
        found.append({
            "first_slice": inside[0]["slice"],
            "last_slice": inside[-1]["slice"],
            "accesses": count,
            "frequency_accesses": 0,
            "slice_accesses": count / len(inside),
            "slice_pages": sum(one["pages"] for one in inside) / len(inside),
            "new_pages": sum(one["new_pages"] for one in inside),
        })
    return [of_time(known, width) | {"phases": found, "working_set": sets}]


def check(accesses, known):
    unit = known["unit_bytes"]
    back = sum(one[0] > other[0] for one, other in zip(accesses, accesses[1:]))
    beyond = sum(address >= known["capacity_bytes"] for _, _, address in accesses)
    unaligned = sum(address % unit != 0 for _, _, address in accesses) if unit else 0
    kinds = [
        ("clock_back", True, back),
        ("beyond_memory", True, beyond),
        ("unaligned", unit is not None, unaligned),
        ("beyond_end", False, 0),
        ("no_size", False, 0),
    ]
    return {
        "accesses": len(accesses),
        "kinds": [{"kind": kind, "checked": is_checked, "violations": count} for kind, is_checked, count in kinds],
        "places": [],
        "gap_count": 0,
        "lost_accesses": 0,
        "restarts": 0,
    }


def main(command_file, truth_file, slice_ns, top):
    accesses, known = truth(truth_file), source(header(command_file))
    width = max(1, int(slice_ns) * 1000 // known["tck_ps"])
    top = int(top)
    json.dump({
        "source": known,
        "stats": stats(accesses, known, width),
        "hot": hot(accesses, top),
        "reuse": reuse(accesses),
        "mrc": mrc(accesses),
        "streams": streams(accesses, top),
        "phases": phases(accesses, known, width),
        "check": check(accesses, known),
    }, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
