//! Lists speed bins of JEDEC, from which distances are computed. Times are in picoseconds.
//!
//! JEDEC defines several bins for one clock. The table has a common bin with slow rows, not the
//! fastest one. In all of these bins tRP equals tRCD, and tRC is tRAS + tRP.
//!
//! Sources: the tables of speed bins and of AC timing in JESD79F (DDR1), JESD79-2F (DDR2),
//! JESD79-3F (DDR3) and JESD79-4 (DDR4). The bins of DDR2-667, DDR3-800, -1600, -1866, DDR4-1866,
//! -2400 and -3200 were compared with the configurations of DRAMSim2 and DRAMsim3, which have the
//! values of Micron's data sheets.

use crate::Generation;

/// Times of one speed bin.
#[derive(Clone, Copy, Debug)]
pub struct Bin {
    /// Shortest clock period that the bin allows.
    pub tck_ps: u32,
    /// CAS latency in clocks, rounded up.
    pub cl: u8,
    /// CAS write latency in clocks; 0 where it follows from the generation.
    pub cwl: u8,
    /// tRCD and tRP.
    pub trcd_ps: u32,
    /// tRAS.
    pub tras_ps: u32,
    /// tRRD; for DDR4 tRRD_S.
    pub trrd_ps: u32,
    /// tRRD_L of DDR4, otherwise tRRD.
    pub trrd_l_ps: u32,
    /// tCCD_L of DDR4, otherwise 0.
    pub tccd_l_ps: u32,
    /// tFAW; 0 for DDR1.
    pub tfaw_ps: u32,
    /// tWTR; for DDR4 tWTR_S; 0 for DDR1, where it is a number of clocks.
    pub twtr_ps: u32,
    /// tWTR of DDR1 in clocks, otherwise 0.
    pub twtr_clocks: u8,
}

const fn ddr1(tck_ps: u32, cl: u8, trcd: u32, tras: u32, trrd: u32, twtr_clocks: u8) -> Bin {
    Bin {
        tck_ps,
        cl,
        cwl: 0,
        trcd_ps: trcd,
        tras_ps: tras,
        trrd_ps: trrd,
        trrd_l_ps: trrd,
        tccd_l_ps: 0,
        tfaw_ps: 0,
        twtr_ps: 0,
        twtr_clocks,
    }
}

const fn ddr2(tck_ps: u32, cl: u8, tras: u32, tfaw: u32, twtr: u32) -> Bin {
    Bin { tfaw_ps: tfaw, twtr_ps: twtr, twtr_clocks: 0, ..ddr1(tck_ps, cl, 15_000, tras, 7_500, 0) }
}

const fn ddr3(tck: u32, cl: u8, cwl: u8, trcd: u32, tras: u32, trrd: u32, tfaw: u32) -> Bin {
    Bin { cwl, tfaw_ps: tfaw, twtr_ps: 7_500, twtr_clocks: 0, ..ddr1(tck, cl, trcd, tras, trrd, 0) }
}

const fn ddr4(tck: u32, cl: u8, cwl: u8, trcd: u32, tras: u32, rrd: [u32; 2], tfaw: u32) -> Bin {
    let tccd_l_ps = match tck {
        1_250.. => 6_250,
        937.. => 5_355,
        _ => 5_000,
    };
    let base = ddr3(tck, cl, cwl, trcd, tras, rrd[0], tfaw);
    Bin { trrd_l_ps: rrd[1], tccd_l_ps, twtr_ps: 2_500, ..base }
}

/// The bins DDR-200 with CL 2, DDR-266B, DDR-333B (both CL 2.5), DDR-400B (CL 3).
const DDR1: [Bin; 4] = [
    ddr1(10_000, 2, 20_000, 50_000, 15_000, 1),
    ddr1(7_500, 3, 20_000, 45_000, 15_000, 1),
    ddr1(6_000, 3, 18_000, 42_000, 12_000, 1),
    ddr1(5_000, 3, 15_000, 40_000, 10_000, 2),
];

/// The bins DDR2-400B, -533C, -667D, -800E.
const DDR2: [Bin; 4] = [
    ddr2(5_000, 3, 45_000, 37_500, 10_000),
    ddr2(3_750, 4, 45_000, 37_500, 7_500),
    ddr2(3_000, 5, 45_000, 37_500, 7_500),
    ddr2(2_500, 6, 45_000, 35_000, 7_500),
];

/// The bins DDR3-800E, -1066G, -1333H, -1600K, -1866M, -2133N.
const DDR3: [Bin; 6] = [
    ddr3(2_500, 6, 5, 15_000, 37_500, 10_000, 40_000),
    ddr3(1_875, 8, 6, 15_000, 37_500, 7_500, 37_500),
    ddr3(1_500, 9, 7, 13_500, 36_000, 6_000, 30_000),
    ddr3(1_250, 11, 8, 13_750, 35_000, 6_000, 30_000),
    ddr3(1_071, 13, 9, 13_910, 34_000, 5_000, 27_000),
    ddr3(937, 14, 10, 13_090, 33_000, 5_000, 25_000),
];

/// The bins DDR4-1600K, -1866M, -2133P, -2400T, -2666V, -2933Y, -3200AA.
const DDR4: [Bin; 7] = [
    ddr4(1_250, 11, 9, 13_750, 35_000, [5_000, 6_000], 25_000),
    ddr4(1_071, 13, 10, 13_920, 34_000, [4_200, 5_300], 23_000),
    ddr4(937, 15, 11, 14_060, 33_000, [3_700, 5_300], 21_000),
    ddr4(833, 17, 12, 14_160, 32_000, [3_300, 4_900], 21_000),
    ddr4(750, 19, 14, 14_250, 32_000, [3_000, 4_900], 21_000),
    ddr4(682, 21, 16, 14_320, 32_000, [2_700, 4_900], 21_000),
    ddr4(625, 22, 16, 13_750, 32_000, [2_500, 4_900], 21_000),
];

/// Returns the slowest bin that allows a clock of period `tck_ps`. A clock that is faster than
/// every bin gets the fastest bin. For example, DDR1 with a period of 8 ns gets DDR-266B.
pub fn of(generation: Generation, tck_ps: u32) -> &'static Bin {
    let bins: &[Bin] = match generation {
        Generation::Ddr1 => &DDR1,
        Generation::Ddr2 => &DDR2,
        Generation::Ddr3 => &DDR3,
        Generation::Ddr4 => &DDR4,
    };
    // Periods are rounded to picoseconds in some descriptions, up or down.
    let fits = |bin: &&Bin| bin.tck_ps <= tck_ps + 1;
    bins.iter().find(fits).unwrap_or(&bins[bins.len() - 1])
}

/// Shortest distances of a generation in clocks, for every clock period.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// tRRD.
    pub trrd: u16,
    /// tFAW.
    pub tfaw: u16,
    /// tWTR.
    pub twtr: u16,
    /// tMRD.
    pub tmrd: u16,
    /// tMOD.
    pub tmod: u16,
    /// tDLLK; for DDR4 of the fastest bins.
    pub tdllk: u16,
    /// tZQinit.
    pub tzqinit: u16,
}

/// Returns the shortest distances of a generation.
pub const fn least(generation: Generation) -> Least {
    let old = Least { trrd: 1, tfaw: 0, twtr: 1, tmrd: 2, tmod: 2, tdllk: 200, tzqinit: 0 };
    match generation {
        Generation::Ddr1 => old,
        Generation::Ddr2 => Least { trrd: 2, twtr: 2, ..old },
        Generation::Ddr3 => {
            Least { trrd: 4, twtr: 4, tmrd: 4, tmod: 12, tdllk: 512, tzqinit: 512, ..old }
        }
        Generation::Ddr4 => {
            Least { trrd: 4, tfaw: 20, twtr: 2, tmrd: 8, tmod: 24, tdllk: 1024, tzqinit: 1024 }
        }
    }
}

/// tRFC of devices of 2^`density_log2` bits in picoseconds; for DDR4 tRFC1. A device that the
/// standard does not have gets the value of the next larger one, or of the largest one.
pub fn trfc_ps(generation: Generation, density_log2: u32) -> u64 {
    let table: &[(u32, u64)] = match generation {
        Generation::Ddr1 => &[(29, 80_000), (30, 120_000)],
        Generation::Ddr2 => {
            &[(28, 75_000), (29, 105_000), (30, 127_500), (31, 195_000), (32, 327_500)]
        }
        Generation::Ddr3 => {
            &[(29, 90_000), (30, 110_000), (31, 160_000), (32, 260_000), (33, 350_000)]
        }
        Generation::Ddr4 => &[(31, 160_000), (32, 260_000), (33, 350_000), (34, 550_000)],
    };
    let fits = table.iter().find(|(most, _)| density_log2 <= *most);
    fits.or(table.last()).map_or(0, |(_, picos)| *picos)
}
