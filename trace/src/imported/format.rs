//! Lists the formats of other programs, with the values that each format states for an access.

/// The format of a file that another program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedFormat {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// Output of the view tool of DynamoRIO's drmemtrace.
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
    /// Output of `perf script` for a recording of `perf mem record`.
    Perf,
    /// A recording of `perf mem record`: the file `perf.data`.
    PerfData,
}

/// The kind of addresses in a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportedAddresses {
    /// The format does not state whether addresses are physical or virtual.
    #[default]
    Unknown,
    /// Virtual addresses of a program.
    Virtual,
    /// Physical addresses of memory.
    Physical,
}

/// The values that a format states for each access, besides its direction and an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether accesses have times, in clocks or another unit.
    pub clocks: bool,
    /// Unit of the times in picoseconds, if it is known.
    pub tck_ps: Option<u32>,
    /// Whether accesses have sizes.
    pub sizes: bool,
    /// Whether accesses have threads.
    pub threads: bool,
    /// Whether accesses have addresses of instructions.
    pub instructions: bool,
    /// The kind of the addresses.
    pub addresses: ImportedAddresses,
    /// Whether the accesses are samples, so that most accesses of the program are missing.
    pub are_samples: bool,
}

impl ImportedFormat {
    /// All formats, in the order in which they are tried. A format that would fit more files comes
    /// later.
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

    /// Name of the format for people.
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

    /// The values that the format states for each access. A file may state more, see
    /// [`ImportedReader::contents`].
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
