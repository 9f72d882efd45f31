"""The time of the simulation."""

from cocotb.simtime import get_sim_time


def now_ps():
    return int(get_sim_time("ps"))
