//! Computes the distances in clocks that a memory controller keeps, for a memory description.
//!
//! A description has the generation, the clock period and the shortest distances that the card
//! checks, but no speed bin. So this module takes the distances of the bin that fits the clock
//! ([`bins`]). Each distance is rounded up to clocks, and is never shorter than the description's
//! own. It is assumed that devices have eight data pins, which determines their density and so
//! tRFC, and pages of 1 KiB, which determines tRRD and tFAW. The additive latency is 0.

use crate::address_map::Axis;
use crate::{Generation, MemoryDescription};

pub mod bins;

use bins::Bin;

/// Average distance of REFRESH commands, tREFI: 7.8 us in picoseconds, up to 85 degrees Celsius.
/// Small DDR1 devices need only half as many commands.
const TREFI_PS: u64 = 7_800_000;
/// Clocks that are left free on the data bus between data of two ranks. JEDEC states no value; two
/// preambles need this time.
pub const RANK_GAP: u64 = 2;

/// Distances in clocks. The documentation of a field states JEDEC's name, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// CAS latency of reads, CL, rounded up. (DDR1 also has 2.5.)
    pub cl: u64,
    /// CAS write latency: 1 for DDR1, CL - 1 for DDR2, CWL for DDR3 and DDR4.
    pub cwl: u64,
    /// Clocks for the data of a burst, half of the burst length.
    pub burst: u64,
    /// tCCD, between READs or WRITEs; for DDR4 tCCD_S, between different bank groups.
    pub tccd: u64,
    /// tCCD_L of DDR4, within a bank group; equal to `tccd` otherwise.
    pub tccd_l: u64,
    /// tRCD, ACTIVATE to READ or WRITE.
    pub trcd: u64,
    /// tRP, PRECHARGE to ACTIVATE or REFRESH.
    pub trp: u64,
    /// tRPA, PRECHARGE of all banks to ACTIVATE or REFRESH: a clock longer for DDR2 with eight
    /// banks.
    pub trpa: u64,
    /// tRAS, ACTIVATE to PRECHARGE.
    pub tras: u64,
    /// tRC, ACTIVATE to the next ACTIVATE of the same bank, or to REFRESH.
    pub trc: u64,
    /// tRRD, ACTIVATE to ACTIVATE of another bank; for DDR4 tRRD_S.
    pub trrd: u64,
    /// tRRD_L of DDR4, within a bank group; equal to `trrd` otherwise.
    pub trrd_l: u64,
    /// tFAW, the time in which at most four banks of a rank are activated; 0 for DDR1, which has no
    /// such limit.
    pub tfaw: u64,
    /// tWR, end of write data to PRECHARGE.
    pub twr: u64,
    /// tWTR, end of write data to READ; for DDR4 tWTR_S.
    pub twtr: u64,
    /// tWTR_L of DDR4, within a bank group; equal to `twtr` otherwise.
    pub twtr_l: u64,
    /// READ to PRECHARGE: BL/2 for DDR1, BL/2 + max(tRTP, 2) - 2 for DDR2, tRTP for DDR3 and DDR4.
    pub read_to_precharge: u64,
    /// WR, the write recovery that the mode register sets. A device with auto-precharge uses it in
    /// place of tWR.
    pub write_recovery: u64,
    /// READ to the precharge of an auto-precharge: RTP, half of WR, for DDR4; otherwise the same
    /// distance as to a PRECHARGE command.
    pub read_to_auto_precharge: u64,
    /// READ to WRITE of one rank.
    pub read_to_write: u64,
    /// tRFC, REFRESH to any command.
    pub trfc: u64,
    /// tREFI, average distance of REFRESH commands.
    pub trefi: u64,
    /// tMRD, between MODE REGISTER SET commands.
    pub tmrd: u64,
    /// tMOD, MODE REGISTER SET to any other command; tMRD for DDR1 and DDR2.
    pub tmod: u64,
    /// CKE high to the first command: 400 ns for DDR1 and DDR2 (the standard of DDR1 does not state
    /// it), tXPR for DDR3 and DDR4.
    pub txpr: u64,
    /// tDLLK, reset of the DLL to READ.
    pub tdllk: u64,
    /// tZQinit, the first ZQ CALIBRATION to any command; 0 for DDR1 and DDR2, which have none.
    pub tzqinit: u64,
}

impl Timing {
    /// Computes the distances for a memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let generation = memory.generation;
        let bin = bins::of(generation, memory.tck_ps);
        let clocks = |picos: u64| round_up(generation, picos, memory.tck_ps.into());
        let from_picos = |least: u64, picos: u32| least.max(clocks(picos.into()));
        let burst = u64::from(memory.burst_length / 2).max(1);
        let (tccd, tccd_l) = column_distances(generation, burst, bin, clocks);
        let cwl = write_latency(generation, bin);
        let cl = u64::from(bin.cl);
        let trp = clocks(bin.trcd_ps.into()).max(memory.trp_clocks.into());
        let eight = memory.bits(Axis::Bank) > 2 && generation == Generation::Ddr2;
        let trtp = from_picos(if generation >= Generation::Ddr3 { 4 } else { 2 }, 7_500);
        let read_to_precharge = match generation {
            Generation::Ddr1 => burst,
            Generation::Ddr2 => burst + trtp - 2,
            Generation::Ddr3 | Generation::Ddr4 => trtp,
        };
        let twr = clocks(15_000);
        let write_recovery = write_recovery(generation, twr);
        // A clock without data when the bus turns round, two with the preambles of DDR3 and DDR4.
        let turn = if generation >= Generation::Ddr3 { 2 } else { 1 };
        let trfc = clocks(bins::trfc_ps(generation, density_log2(memory)));
        let least = bins::least(generation);
        let tmod = if generation >= Generation::Ddr3 {
            from_picos(least.tmod.into(), 15_000)
        } else {
            u64::from(least.tmrd)
        };
        Timing {
            cl,
            cwl,
            burst,
            tccd,
            tccd_l,
            trcd: clocks(bin.trcd_ps.into()).max(memory.trcd_clocks.into()),
            trp,
            trpa: trp + u64::from(eight),
            tras: clocks(bin.tras_ps.into()),
            trc: clocks(u64::from(bin.tras_ps) + u64::from(bin.trcd_ps)),
            trrd: from_picos(least.trrd.into(), bin.trrd_ps),
            trrd_l: from_picos(least.trrd.into(), bin.trrd_l_ps),
            tfaw: from_picos(least.tfaw.into(), bin.tfaw_ps),
            twr,
            write_recovery,
            read_to_auto_precharge: match generation {
                Generation::Ddr4 => trtp.max(write_recovery / 2),
                _ => read_to_precharge,
            },
            twtr: if bin.twtr_clocks != 0 {
                bin.twtr_clocks.into()
            } else {
                from_picos(least.twtr.into(), bin.twtr_ps)
            },
            twtr_l: match generation {
                Generation::Ddr1 => bin.twtr_clocks.into(),
                Generation::Ddr2 => from_picos(2, bin.twtr_ps),
                Generation::Ddr3 | Generation::Ddr4 => from_picos(4, 7_500),
            },
            read_to_precharge,
            read_to_write: cl + burst + turn - cwl,
            trfc: trfc.max(memory.trfc_clocks.into()),
            trefi: clocks(TREFI_PS),
            tmrd: u64::from(least.tmrd).max(memory.tmrd_clocks.into()),
            tmod: tmod.max(memory.tmrd_clocks.into()),
            txpr: match generation {
                Generation::Ddr1 | Generation::Ddr2 => clocks(400_000),
                Generation::Ddr3 | Generation::Ddr4 => (trfc + clocks(10_000)).max(5),
            },
            tdllk: least.tdllk.into(),
            tzqinit: least.tzqinit.into(),
        }
    }
}

/// Converts a time to clocks, rounded up. On DDR4 a fraction below 0.026 clocks is dropped, since
/// periods are rounded to picoseconds (JESD79-4 *Rounding algorithms*).
fn round_up(generation: Generation, picos: u64, tck_ps: u64) -> u64 {
    match generation {
        Generation::Ddr4 => (picos * 1000 / tck_ps + 974) / 1000,
        _ => picos.div_ceil(tck_ps),
    }
}

/// tCCD and tCCD_L. DDR1 can issue a READ as soon as the previous burst has ended (JESD79F
/// *Reads*), DDR2 after at least two clocks, and DDR3 and DDR4 after four. tCCD_L of DDR4 is at
/// least 5 clocks and depends on the bin.
fn column_distances(
    generation: Generation,
    burst: u64,
    bin: &Bin,
    clocks: impl Fn(u64) -> u64,
) -> (u64, u64) {
    match generation {
        Generation::Ddr1 => (burst, burst),
        Generation::Ddr2 => (burst.max(2), burst.max(2)),
        Generation::Ddr3 => (burst.max(4), burst.max(4)),
        Generation::Ddr4 => (burst.max(4), clocks(bin.tccd_l_ps.into()).max(5)),
    }
}

/// The write recovery WR that the mode register can state, for tWR in clocks. DDR1 has no such
/// field.
fn write_recovery(generation: Generation, twr: u64) -> u64 {
    match generation {
        Generation::Ddr1 => twr,
        Generation::Ddr2 => twr.max(2),
        Generation::Ddr3 if twr <= 8 => twr.max(5),
        // 15 ns are 16 clocks of DDR3-2133, whose period is 937.5 ps.
        Generation::Ddr3 => twr.next_multiple_of(2).min(16),
        Generation::Ddr4 => twr.max(10).next_multiple_of(2),
    }
}

fn write_latency(generation: Generation, bin: &Bin) -> u64 {
    match generation {
        Generation::Ddr1 => 1,
        Generation::Ddr2 => u64::from(bin.cl) - 1,
        Generation::Ddr3 | Generation::Ddr4 => bin.cwl.into(),
    }
}

/// log2 of the number of bits of a device with eight data pins.
fn density_log2(memory: &MemoryDescription) -> u32 {
    let cells = [Axis::Row, Axis::Bank, Axis::Column].into_iter();
    cells.map(|axis| u32::from(memory.bits(axis))).sum::<u32>() + 3
}

#[cfg(all(test, feature = "toml"))]
mod tests {
    use super::*;
    use crate::toml_memory;

    fn timing(generation: &str, tck_ns: f64, burst: u32, rows: &str) -> Timing {
        let text = format!(
            "generation = '{generation}'\ntck_ns = {tck_ns:?}\nbus_bytes = 8\nburst_length = {burst}\n\
             [map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15']\nrow = ['p16-{rows}']\n"
        );
        Timing::new(&toml_memory::parse(&text).unwrap())
    }

    #[test]
    fn ddr_200_has_the_distances_of_the_saturation_traffic() {
        let timing = timing("DDR1", 10.0, 4, "p28");
        let Timing { cl, cwl, burst, tccd, trcd, trp, tras, trc, trrd, tfaw, .. } = timing;
        assert_eq!((cl, cwl, burst, tccd), (2, 1, 2, 2));
        assert_eq!((trcd, trp, tras, trc, trrd, tfaw), (2, 2, 5, 7, 2, 0));
        let Timing { twr, twtr, trfc, trefi, read_to_write, .. } = timing;
        assert_eq!((twr, twtr, trfc, trefi, read_to_write), (2, 1, 8, 780, 4));
    }

    #[test]
    fn ddr3_1600_of_4_gigabit_has_the_distances_of_jedec() {
        let timing = timing("DDR3", 1.25, 8, "p31");
        let Timing { cl, cwl, tccd, trcd, tras, trc, trrd, tfaw, .. } = timing;
        assert_eq!((cl, cwl, tccd, trcd, tras, trc), (11, 8, 4, 11, 28, 39));
        assert_eq!((trrd, tfaw), (5, 24));
        let Timing { twr, twtr, trfc, trefi, read_to_write, read_to_precharge, tmod, .. } = timing;
        assert_eq!((twr, twtr, trfc, trefi), (12, 6, 208, 6240));
        // CL + tCCD + 2 - CWL.
        assert_eq!((read_to_write, read_to_precharge, tmod), (9, 6, 12));
    }

    #[test]
    fn ddr4_1866_of_4_gigabit_has_the_distances_of_data_sheets() {
        let text = "generation = 'DDR4'\ntck_ns = 1.071\nbus_bytes = 8\nburst_length = 8\n[map]\n\
            column = ['p3-p12']\nbank = ['p13', 'p14', 'p15', 'p16']\nrow = ['p17-p31']\n";
        let timing = Timing::new(&toml_memory::parse(text).unwrap());
        let Timing { cl, cwl, tccd, tccd_l, trcd, trp, tras, trrd, trrd_l, tfaw, .. } = timing;
        assert_eq!((cl, cwl, tccd, tccd_l, trcd, trp, tras), (13, 10, 4, 5, 13, 13, 32));
        assert_eq!((trrd, trrd_l, tfaw), (4, 5, 22));
        let Timing { twr, write_recovery, twtr, twtr_l, read_to_precharge, trfc, .. } = timing;
        assert_eq!((twr, write_recovery, twtr, twtr_l, read_to_precharge), (14, 14, 3, 7, 7));
        assert_eq!(trfc, 243);
    }

    #[test]
    fn a_description_can_lengthen_distances() {
        let text = "generation = 'DDR2'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 4\ntrcd_clocks = 9\n\
            trp_clocks = 8\ntrfc_clocks = 70\ntmrd_clocks = 6\n[map]\ncolumn = ['p3-p12']\n\
            bank = ['p13', 'p14', 'p15']\nrow = ['p16-p29']\n";
        let timing = Timing::new(&toml_memory::parse(text).unwrap());
        let Timing { trcd, trp, trpa, trfc, tmrd, tmod, .. } = timing;
        assert_eq!((trcd, trp, trpa, trfc, tmrd, tmod), (9, 8, 9, 70, 6, 6));
    }
}
