//! States of each format what it says of an access.

/// The format of a file that another program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedFormat {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// What the view tool of DynamoRIO's drmemtrace prints.
    Drmemtrace,
    /// Requests for DRAMsim3.
    Dramsim3,
    /// Requests for DRAMSys, with absolute times.
    Dramsys,
    /// Requests for Ramulator: `LoadStoreTrace` of version 2, and memory traces of version 1.
    Ramulator,
    /// Traces of instructions for Ramulator: `SimpleO3` of version 2, and CPU traces of version 1.
    RamulatorInstructions,
    /// A CSV file of libCacheSim.
    LibCacheSim,
    /// A file of libCacheSim in its binary format `oracleGeneral`.
    OracleGeneral,
    /// Instructions for ChampSim.
    ChampSim,
    /// Packets that gem5's `MemTraceProbe` has recorded.
    Gem5,
    /// `perf script` of what `perf mem record` has sampled.
    Perf,
    /// The recording of `perf mem record` itself.
    PerfData,
}

/// Which addresses a format has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportedAddresses {
    /// The format does not say whether they are physical.
    #[default]
    Unknown,
    /// Those of a program.
    Virtual,
    /// Those of memory.
    Physical,
}

/// What a format states of each access, besides its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// When it was made, in clocks or another unit.
    pub clocks: bool,
    /// The unit of times in picoseconds, if it is known.
    pub tck_ps: Option<u32>,
    /// Its bytes.
    pub sizes: bool,
    /// Its thread.
    pub threads: bool,
    /// The address of its instruction.
    pub instructions: bool,
    /// Which address it has.
    pub addresses: ImportedAddresses,
    /// Whether these are samples, so that most accesses are missing.
    pub are_samples: bool,
}

impl ImportedFormat {
    /// All formats. One that recognises more files comes behind others.
    pub const ALL: [ImportedFormat; 12] = [
        ImportedFormat::Lackey,
        ImportedFormat::Dramsim3,
        ImportedFormat::Dramsys,
        ImportedFormat::Ramulator,
        ImportedFormat::Drmemtrace,
        ImportedFormat::LibCacheSim,
        ImportedFormat::Perf,
        ImportedFormat::RamulatorInstructions,
        ImportedFormat::ChampSim,
        ImportedFormat::OracleGeneral,
        ImportedFormat::Gem5,
        ImportedFormat::PerfData,
    ];

    /// What it is, for people.
    pub const fn name(self) -> &'static str {
        match self {
            ImportedFormat::Lackey => "lackey trace",
            ImportedFormat::Drmemtrace => "drmemtrace view",
            ImportedFormat::Dramsim3 => "DRAMsim3 trace",
            ImportedFormat::Dramsys => "DRAMSys trace",
            ImportedFormat::Ramulator => "Ramulator trace",
            ImportedFormat::RamulatorInstructions => "Ramulator instruction trace",
            ImportedFormat::LibCacheSim | ImportedFormat::OracleGeneral => "libCacheSim trace",
            ImportedFormat::ChampSim => "ChampSim trace",
            ImportedFormat::Gem5 => "gem5 packet trace",
            ImportedFormat::Perf | ImportedFormat::PerfData => "perf samples",
        }
    }

    /// What it states of each access. A file may state more: [`ImportedReader::contents`].
    ///
    /// [`ImportedReader::contents`]: super::ImportedReader::contents
    pub const fn contents(self) -> Contents {
        let none = Contents {
            clocks: false,
            tck_ps: None,
            sizes: false,
            threads: false,
            instructions: false,
            addresses: ImportedAddresses::Unknown,
            are_samples: false,
        };
        let of_program =
            Contents { instructions: true, addresses: ImportedAddresses::Virtual, ..none };
        match self {
            ImportedFormat::Lackey => Contents { sizes: true, ..of_program },
            ImportedFormat::Drmemtrace => Contents { sizes: true, threads: true, ..of_program },
            ImportedFormat::Dramsim3
            | ImportedFormat::Dramsys
            | ImportedFormat::LibCacheSim
            | ImportedFormat::OracleGeneral => Contents { clocks: true, ..none },
            ImportedFormat::Ramulator | ImportedFormat::RamulatorInstructions => none,
            ImportedFormat::ChampSim => of_program,
            ImportedFormat::Gem5 => Contents {
                clocks: true,
                sizes: true,
                addresses: ImportedAddresses::Physical,
                ..none
            },
            ImportedFormat::Perf | ImportedFormat::PerfData => Contents {
                clocks: true,
                tck_ps: Some(1000),
                threads: true,
                are_samples: true,
                ..of_program
            },
        }
    }
}
