-- Dissects the frames of an HMTT card for Wireshark. The tables below are those of docs/format.md;
-- docs/wireshark.md explains the installation.
--
-- It is one file, although it is long: users install it by copying it into a folder for plugins or name it with
-- -X lua_script, and Wireshark loads each script of that folder by itself.
--
-- Invariants: a frame's records are decoded from that frame only, except for the base of the tag window, which the last
-- report states. What depends on earlier frames is decided once, while the capture is read in order, and stored by the
-- number of the frame, so a frame that is dissected again, in any order, is shown in the same way. The length is checked
-- before any byte is read, so no payload causes a Lua error.
--
-- Numbers are doubles, which are exact up to 2^53; clocks (48 bits) and addresses are below that. "%d" and "%x" fail for
-- numbers of more than 32 bits in some builds of Lua, hence decimal() and hex().

local ETHER_TYPE, VERSION = 0x88b5, 3
local HEADER_BYTES, MAX_WORDS = 4, 187
local DATA, INFO, END, HEARTBEAT = 0, 1, 2, 3
local COUNTERS, ACCESSES, LOST, CLOCKS = 2 ^ 40, 2 ^ 40, 2 ^ 24, 2 ^ 48
-- Limits of docs/format.md, "Frame counter", beyond which a card has restarted.
local FARTHEST_DETOUR, FIRST_FRAMES, FIRST_DETOUR, FARTHEST_GAP = 1024, 16, 80, 2 ^ 20
-- Number of gaps to which late frames are assigned.
local GAPS_KEPT = 64

local DEC, HEX = base.DEC, base.HEX
local floor = math.floor
local hmtt = Proto("hmtt", "HMTT memory trace")
local fields, experts = {}, {}

local function decimal(value) return string.format("%.0f", value) end
local function u64(value) return UInt64.new(value % 2 ^ 32, floor(value / 2 ^ 32)) end
local function hex(value)
  if value < 2 ^ 32 then return string.format("%x", value) end
  return string.format("%x%08x", floor(value / 2 ^ 32), value % 2 ^ 32)
end
local function plural(count, noun) return decimal(count) .. " " .. noun .. (count == 1 and "" or "s") end

-- Fields -----------------------------------------------------------------------------------------

local function new_field(constructor, name, ...)
  local field = constructor("hmtt." .. name, ...)
  fields[#fields + 1] = field
  return field
end

-- Defines the bits of words as in the format's diagrams: { name, title, word, high, low, display, values }. `key` is the
-- name of the value in this script, if it is another one.
local function layout(group, definitions)
  for _, d in ipairs(definitions) do
    d.key, d.word, d.high, d.low = d.key or d[1], d[3], d[4], d[5]
    d.width = d.high - d.low + 1
    -- Wireshark extracts bits within one half itself, and shows their positions.
    d.half = floor(d.high / 32) == floor(d.low / 32)
    local constructor = d.width > 32 and ProtoField.uint64 or ProtoField.uint32
    local mask = d.half and d.width < 32 and (2 ^ d.width - 1) * 2 ^ (d.low % 32) or nil
    d.field = new_field(constructor, group .. "." .. d[1], d[2], d[6] or DEC, d[7], mask)
  end
  return definitions
end

-- Adds the fields of a layout to the tree, for the words from an offset on. Returns the values by their keys.
local function show(tree, tvb, at, definitions)
  local values = {}
  for _, d in ipairs(definitions) do
    local word = at + 8 * d.word
    if d.half then
      local range = tvb(word + (d.high < 32 and 4 or 0), 4)
      values[d.key] = floor(range:uint() / 2 ^ (d.low % 32)) % 2 ^ d.width
      tree:add(d.field, range)
    elseif d.width <= 32 then
      values[d.key] = tvb(word, 8):bitfield(63 - d.high, d.width)
      tree:add(d.field, tvb(word, 8), values[d.key])
    else -- The field begins at bit 0.
      local high, low = tvb(word, 4):uint() % 2 ^ (d.high - 31), tvb(word + 4, 4):uint()
      values[d.key] = high * 2 ^ 32 + low
      tree:add(d.field, tvb(word, 8), UInt64.new(low, high))
    end
  end
  return values
end

local KINDS = { [DATA] = "Data", [INFO] = "Info", [END] = "End", [HEARTBEAT] = "Heartbeat" }
local RW = { [0] = "R", [1] = "W" }
local BOOL = { [0] = "no", [1] = "yes" }
local MODES = { [0] = "line", [1] = "page", [2] = "frequency", [3] = "analysis" }
local GRANULARITIES = { [0] = "line", [1] = "burst" }
local GROUPS = { [0] = "row_hits", [1] = "row_misses", [2] = "row_conflicts", [3] = "reuse", [4] = "other" }
local FAULTS = { "read_idle", "write_idle", "act_open", "ref_open", "cmd_in_rfc", "mrs_open", "reserved",
  "zq_open", "cmd_in_xs", "cmd_in_mrd", "cmd_in_rp", "rw_in_rcd", "refresh_overdue", "multi_rank",
  [20] = "clock_lost", [21] = "command_lost" }
-- The kinds of records of whole words have the numbers of the format; the other numbers are defined here.
local ACCESS, SKIP, SEGMENT, EMPTY = 0, 16, 17, 18
local TAG, FAULT, PAGE, PAGE_LONG, SLICE, INTERVAL, COUNT, HOT_PAGE = 1, 2, 3, 4, 5, 6, 7, 8
local RECORDS = { [0] = "access", "tag or mark", "fault", "page", "page, long", "slice", "interval", "count",
  "hot page", [SKIP] = "skip", [SEGMENT] = "segment", [EMPTY] = "empty" }

local f = {
  counter = new_field(ProtoField.uint64, "counter", "Frame counter", DEC),
  version = new_field(ProtoField.uint8, "format_version", "Format version", DEC, nil, 0xf0),
  kind = new_field(ProtoField.uint8, "kind", "Kind", DEC, KINDS, 0x0f),
  words = new_field(ProtoField.uint8, "words", "Words", DEC),
  lost = new_field(ProtoField.uint16, "card_lost_records_low", "Records lost on the card, low 16 bits", DEC),
  record = new_field(ProtoField.uint8, "record.kind", "Record", DEC, RECORDS),
  map = new_field(ProtoField.uint64, "report.map", "Address bits of a row, bank, column or rank bit", HEX),
  clock = {}, address = {},
}
for _, group in ipairs { "access", "tag", "fault", "page" } do
  f.clock[group] = new_field(ProtoField.uint64, group .. ".clock", "Clock", DEC)
end
for _, group in ipairs { "access", "page", "hot_page" } do
  f.address[group] = new_field(ProtoField.uint64, group .. ".address", "Physical address", HEX)
end
-- The direction of an access to the tag window; the layout of an access has a field of its own.
f.direction = new_field(ProtoField.uint32, "access.direction", "Direction", DEC, RW)

local SYNC = layout("sync", { { "unit_log2", "Unit: log2 of its bytes", 0, 63, 60, key = "unit" },
  { "segment", "Segment", 0, 59, 48, HEX }, { "clock", "Clock", 0, 47, 0 },
  { "card_lost_records", "Records lost on the card", 1, 63, 40, key = "lost" },
  { "accesses", "Accesses before", 1, 39, 0 } })
local BEAT = layout("heartbeat", { { "running", "DDR clock runs", 0, 63, 63, DEC, BOOL },
  { "losses", "Losses of the DDR clock", 0, 15, 0 },
  { "transmit_clocks", "Transmit clocks of 8 ns", 1, 47, 0 } })
local HALF = { -- positions as in the high half of a word
  [ACCESS] = layout("access", { { "direction", "Direction", 0, 63, 63, DEC, RW },
    { "delta_clocks", "Delta in clocks", 0, 62, 58, key = "delta" },
    { "number", "Number", 0, 57, 32, HEX } }),
  [SKIP] = layout("skip", { { "clocks", "Clocks", 0, 56, 32 } }),
  [SEGMENT] = layout("segment", { { "segment", "Segment", 0, 56, 45, HEX },
    { "clocks", "Clocks", 0, 44, 32 } }),
  [EMPTY] = {},
}
local WORD = {
  [TAG] = layout("tag", { { "delta_clocks", "Delta in clocks", 0, 53, 38, key = "delta" },
    { "mark", "Mark", 0, 36, 36, DEC, BOOL },
    { "direction", "Direction", 0, 35, 35, DEC, RW }, { "value", "Offset or register", 0, 31, 0, HEX } }),
  [FAULT] = layout("fault", { { "delta_clocks", "Delta in clocks", 0, 53, 38, key = "delta" },
    { "fault", "Fault", 0, 37, 32, DEC, FAULTS, key = "kind" },
    { "bank", "Rank * 16 + bank", 0, 31, 26 } }),
  [PAGE] = layout("page", { { "delta_clocks", "Delta in clocks", 0, 53, 46, key = "delta" },
    { "number", "Number", 0, 45, 20, HEX },
    { "reads", "Reads", 0, 19, 15 }, { "writes", "Writes", 0, 14, 10 },
    { "duration_clocks", "Duration in clocks", 0, 9, 0, key = "duration" } }),
  [PAGE_LONG] = layout("page", { { "delta_clocks", "Delta in clocks", 0, 53, 38, key = "delta" },
    { "number", "Number", 0, 37, 12, HEX },
    { "reads", "Reads", 1, 63, 44 }, { "writes", "Writes", 1, 43, 24 },
    { "duration_clocks", "Duration in clocks", 1, 23, 0, key = "duration" } }),
  [SLICE] = layout("slice", { { "slice_code", "Slice code", 0, 53, 49, key = "code" },
    { "partial", "Partial", 0, 48, 48, DEC, BOOL },
    { "clock", "First clock", 0, 47, 0 }, { "reads", "Reads", 1, 63, 32 }, { "writes", "Writes", 1, 31, 0 } }),
  [INTERVAL] = layout("interval", { { "part", "Part (63: all)", 0, 53, 48 }, { "clock", "Clock", 0, 47, 0 } }),
  [COUNT] = layout("count", { { "dump", "Dump", 0, 53, 46 }, { "group", "Group", 0, 45, 42, DEC, GROUPS },
    { "index", "Index", 0, 41, 32 }, { "value", "Value", 0, 31, 0 } }),
  [HOT_PAGE] = layout("hot_page", { { "dump", "Dump", 0, 53, 46 },
    { "page_number", "Page number", 0, 27, 0, HEX, key = "page" },
    { "count", "Count C", 1, 63, 32 }, { "votes", "Votes V", 1, 31, 0 } }),
}
local SLICE_LENGTH = layout("slice", { { "duration_clocks", "Duration in clocks", 2, 31, 0, key = "length" } })
local REPORT_WORDS = 12
local REPORT = layout("report", { { "format_version", "Format version", 2, 63, 56, key = "version" },
  { "granularity", "What line records name", 2, 51, 51, DEC, GRANULARITIES },
  { "tag_window_on", "Tag window on", 2, 50, 50, DEC, BOOL }, { "slices", "Slices on", 2, 49, 49, DEC, BOOL },
  { "running", "Running", 2, 48, 48, DEC, BOOL }, { "mode", "Mode", 2, 47, 44, DEC, MODES },
  { "slice_code", "Slice code", 2, 43, 39 }, { "threshold_words", "Threshold in words", 2, 31, 24 },
  { "reads", "READ bursts", 3, 63, 0 }, { "writes", "WRITE bursts", 4, 63, 0 },
  { "faults", "Faults", 5, 63, 32 }, { "tags", "Tags and marks", 5, 31, 0 },
  { "unreported_faults", "Faults not reported", 6, 63, 56 },
  { "burst_length_log2", "log2 of the burst in force", 6, 55, 54 },
  { "tag_window_address", "Base of the tag window", 6, 39, 0, HEX, key = "tag_window" },
  { "digest", "Digest", 7, 63, 0, HEX },
  { "generation", "DDR generation", 8, 63, 56 }, { "rank_bits", "Rank bits", 8, 55, 48, key = "ranks" },
  { "bank_bits", "Bank bits", 8, 47, 40, key = "banks" },
  { "row_bits", "Row bits", 8, 39, 32, key = "rows" },
  { "column_bits", "Column bits", 8, 31, 24, key = "columns" },
  { "bus_log2", "log2 of the bytes of a bus word", 8, 23, 16 },
  { "burst_length", "Burst length in bus words", 8, 15, 8 },
  { "line_log2", "log2 of the bytes of a line", 8, 7, 0 }, { "tck_ps", "Clock period in ps", 9, 63, 32 },
  { "tick_clocks", "Clocks between ticks", 9, 31, 0 },
  { "tag_window_log2", "log2 of the bytes of the tag window", 10, 63, 56, key = "window_log2" },
  { "register_step_log2", "log2 of the bytes between registers", 10, 55, 48 },
  { "register_accesses", "Accesses that make a command", 10, 47, 40 },
  { "mirror_odd_ranks", "Odd ranks have address pins mirrored", 10, 33, 33, DEC, BOOL },
  { "burst_from_mode_register", "The mode register sets the burst length", 10, 32, 32, DEC, BOOL },
  { "trfc_clocks", "tRFC in clocks", 10, 31, 16 },
  { "merge_window_clocks", "Merge window in clocks", 10, 15, 0 },
  { "trcd_clocks", "tRCD in clocks", 11, 63, 56 }, { "trp_clocks", "tRP in clocks", 11, 55, 48 },
  { "txs_clocks", "tXS in clocks", 11, 47, 32 }, { "tmrd_clocks", "tMRD in clocks", 11, 31, 24 },
  { "refresh_limit_clocks", "Longest time without REFRESH in clocks", 11, 23, 0 } })
hmtt.fields = fields

local function new_expert(name, text, group, severity)
  local expert = ProtoExpert.new("hmtt." .. name, text, group, severity)
  experts[#experts + 1] = expert
  return expert
end
local group, severity = expert.group, expert.severity
local e = {
  gap = new_expert("gap", "Frames missing", group.SEQUENCE, severity.WARN),
  gap_filled = new_expert("gap_filled", "Missing frames came later", group.SEQUENCE, severity.NOTE),
  lost = new_expert("card_lost_records", "Records lost on the card", group.SEQUENCE, severity.WARN),
  accesses = new_expert("lost_accesses", "Accesses missing", group.SEQUENCE, severity.WARN),
  reordered = new_expert("reordered", "Frame out of order", group.SEQUENCE, severity.NOTE),
  duplicate = new_expert("duplicate", "Copy of a frame", group.SEQUENCE, severity.NOTE),
  restart = new_expert("restart", "The card counts anew", group.SEQUENCE, severity.WARN),
  ended = new_expert("ended", "The capture was stopped", group.SEQUENCE, severity.CHAT),
  clock_lost = new_expert("ddr_clock_lost", "DDR clock lost", group.SEQUENCE, severity.WARN),
  clock_found = new_expert("ddr_clock_found", "DDR clock found again", group.SEQUENCE, severity.NOTE),
  malformed = new_expert("malformed", "Malformed", group.MALFORMED, severity.ERROR),
}
hmtt.experts = experts

-- Comparison with earlier frames -------------------------------------------------------------------

local past
local function forget()
  past = {
    read = 0,      -- number of the last frame compared
    verdicts = {}, -- by frame number: the differences found, if any
    windows = {},  -- by frame number: base of the tag window, if on
    beat = { running = 1, losses = 0 },
  }
end
hmtt.init = forget -- called before a capture is read or reloaded
forget()

-- Begins the counts of a card that has started or restarted.
local function begin(counter)
  past.newest, past.ended, past.reached, past.lost, past.window = counter, false, nil, nil, nil
  past.seen, past.counters, past.slot, past.gaps = {}, {}, 0, {}
  past.clock_lost, past.entered = false, nil
  past.beat = { running = 1, losses = 0 }
end

local function remember(frame)
  past.slot = past.slot % FARTHEST_DETOUR + 1
  local oldest = past.counters[past.slot]
  if oldest then past.seen[oldest] = nil end
  past.counters[past.slot], past.seen[frame.counter] = frame.counter, frame.bytes
end

-- Finds the place of a frame in the order of the card's frames; returns true if it is newer than all earlier ones.
local function place(frame, verdict)
  local counter = frame.counter
  if not past.newest then
    begin(counter)
    return true
  end
  local ahead = (counter - past.newest) % COUNTERS
  if ahead >= COUNTERS / 2 then ahead = ahead - COUNTERS end
  local opens = counter == 0 and (frame.kind == INFO or frame.kind == HEARTBEAT)
  local copied = past.seen[counter]
  if ahead < -FARTHEST_DETOUR or counter < FIRST_FRAMES and ahead < -FIRST_DETOUR
    or opens and (past.ended and ahead < 0 or ahead > FARTHEST_GAP) or copied and copied ~= frame.bytes then
    verdict.restart = "its frames are counted from " .. decimal(counter)
    begin(counter)
    return true
  elseif copied then
    verdict.duplicate = true
    return false
  elseif ahead < 0 then
    verdict.behind = -ahead
    for _, gap in ipairs(past.gaps) do
      if (counter - gap.first) % COUNTERS < gap.frames then gap.late = gap.late + 1 end
    end
    return false
  elseif ahead > 1 then
    verdict.gap = { first = (past.newest + 1) % COUNTERS, frames = ahead - 1, late = 0 }
    table.insert(past.gaps, verdict.gap)
    if #past.gaps > GAPS_KEPT then table.remove(past.gaps, 1) end
  end
  past.newest = counter
  return true
end

-- Compares a sync with the counts after the earlier frames.
local function compare(frame, verdict)
  local sync = frame.sync
  if past.reached then
    local lost, accesses = (sync.lost - past.lost) % LOST, (sync.accesses - past.reached) % ACCESSES
    if past.clock_lost and frame.kind == INFO and sync.accesses == 0 and sync.lost == 0
      and (past.reached ~= 0 or past.lost ~= 0 or sync.clock < past.entered) then
      verdict.restart = "its DDR clock was lost"
      past.clock_lost = false
    elseif lost >= LOST / 2 or accesses >= ACCESSES / 2 then
      verdict.restart = "its counts went back"
      past.clock_lost = false
    elseif lost + accesses > 0 then
      verdict.lost, verdict.accesses = lost, accesses
    end
  end
  past.reached, past.lost = (sync.accesses + frame.counted) % ACCESSES, sync.lost
  past.entered = sync.clock
end

-- Compares a frame with the earlier ones; returns the differences, or nil if there are none.
local function judge(frame)
  local verdict = {}
  local newest = place(frame, verdict)
  if not verdict.duplicate then remember(frame) end
  if newest then
    if frame.sync then compare(frame, verdict) end
    if frame.beat then
      past.clock_lost = past.clock_lost or frame.beat.losses ~= past.beat.losses
      verdict.beat, past.beat = past.beat, frame.beat
    end
    if frame.report then
      local report, size = frame.report, 2 ^ frame.report.window_log2
      past.window = report.tag_window_on == 1 and report.tag_window - report.tag_window % size or nil
    end
    if frame.kind == DATA then past.ended = false elseif frame.kind == END then past.ended = true end
  end
  return next(verdict) and verdict
end

-- Adds a verdict as expert info and to the Info column.
local function add_verdict(verdict, frame, tree, info)
  local function add(expert, text)
    tree:add_proto_expert_info(expert, text)
    info:prepend("[" .. text .. "] ")
  end
  local accesses = verdict.accesses or 0
  local cost = accesses > 0 and ", " .. plural(accesses, "access"):gsub("accesss$", "accesses") or ""
  if verdict.restart then add(e.restart, "The card counts anew: " .. verdict.restart) end
  if verdict.duplicate then add(e.duplicate, "Copy of an earlier frame") end
  if verdict.behind then add(e.reordered, "Out of order, " .. decimal(verdict.behind) .. " behind the newest") end
  if verdict.lost and verdict.lost > 0 then
    add(e.lost, plural(verdict.lost, "record") .. " lost on the card" .. (verdict.gap and "" or cost))
  elseif accesses > 0 and not verdict.gap then
    add(e.accesses, "Missing since the last sync" .. cost)
  end
  local gap = verdict.gap
  if gap then
    local text = plural(gap.frames, "frame") .. " missing before this one" .. cost
    if gap.late > 0 then text = text .. "; " .. decimal(gap.late) .. " came later" end
    add(gap.late < gap.frames and e.gap or e.gap_filled, text)
  end
  local before, beat = verdict.beat, frame.beat
  if before and beat and beat.running == 1 then
    if beat.losses ~= before.losses then
      add(e.clock_lost, "DDR clock lost and found again")
    elseif before.running == 0 then
      add(e.clock_found, "DDR clock found again")
    end
  end
end

-- One frame ---------------------------------------------------------------------------------------

-- The 64-bit FNV-1a hash of bytes.
local function fnv1a(bytes)
  local hash, prime = UInt64.new(0x84222325, 0xcbf29ce4), UInt64.new(0x1b3, 0x100)
  for at = 1, #bytes do hash = hash:bxor(UInt64(bytes:byte(at))) * prime end
  return hash
end

local function malformed(tree, text)
  tree:add_proto_expert_info(e.malformed, text)
end

-- Adds a field whose value is computed, and marks it as generated.
local function computed(tree, field, range, value)
  tree:add(field, range, value):set_generated()
end

local function access(tree, range, clock, address)
  computed(tree, f.clock.access, range, u64(clock))
  computed(tree, f.address.access, range, u64(address))
end

-- Wireshark reads a whole file before it shows it, and building the tree of records takes most of the time of a frame. So
-- the tree is built only if it is needed; otherwise this object takes its place.
local NOTHING = {}
for _, method in ipairs { "add", "set_text", "set_generated" } do
  NOTHING[method] = function() return NOTHING end
end

local of_records = { f.record, f.direction }
local function need(definitions)
  for _, d in ipairs(definitions) do of_records[#of_records + 1] = d.field end
end
for _, definitions in pairs(HALF) do need(definitions) end
for _, definitions in pairs(WORD) do need(definitions) end
need(SLICE_LENGTH)
for _, group in pairs { f.clock, f.address } do
  for _, field in pairs(group) do of_records[#of_records + 1] = field end
end

local function tree_of_records(tree)
  for _, field in ipairs(of_records) do
    if tree:referenced(field) then return tree end
  end
  return NOTHING
end

-- Advances the clock. `state` is that of a pass over the records of a data frame: clock, segment, unit, counted, records,
-- window.
local function pass(state, clocks)
  state.clock = (state.clock + clocks) % CLOCKS
  return state.clock
end

local function physical(state, number)
  return (state.segment * 2 ^ 26 + number) * 2 ^ state.unit
end

local function half_record(tree, tvb, at, half, state)
  local delta, rest = floor(half / 2 ^ 26) % 32, half % 2 ^ 26
  local kind = delta < 31 and ACCESS or rest == 0 and EMPTY or rest < 2 ^ 25 and SKIP or SEGMENT
  local text
  if kind == ACCESS then
    state.records, state.counted = state.records + 1, state.counted + 1
    pass(state, delta)
  elseif kind == SEGMENT then
    state.segment = floor(rest / 2 ^ 13) % 2 ^ 12
    pass(state, rest % 2 ^ 13)
    text = "Segment " .. hex(state.segment)
  else
    pass(state, rest)
    text = kind == SKIP and "Skip of " .. plural(rest, "clock") or "Empty half"
  end
  if tree == NOTHING then return end
  local range, address = tvb(at, 4), physical(state, rest)
  local item = tree:add(f.record, range, kind, text
    or string.format("%.0f %s %s", state.clock, half < 2 ^ 31 and "R" or "W", hex(address)))
  for _, d in ipairs(HALF[kind]) do item:add(d.field, range) end
  if kind == ACCESS then access(item, range, state.clock, address) end
end

local function mark_name(register)
  if register == 0x60 then return "kernel_enter" elseif register == 0x61 then return "kernel_exit" end
  return register >= 0x100 and register < 0x200 and "free " .. decimal(register - 0x100) or "unknown"
end

-- For each kind of record of whole words, a function that updates the state, adds computed fields and returns the text of
-- the record's line.
local MEANING = {}
MEANING[TAG] = function(v, item, range, state)
  local clock = pass(state, v.delta)
  computed(item, f.clock.tag, range, u64(clock))
  if v.mark == 1 then
    return string.format("Mark %s: register %s, %s", decimal(clock), hex(v.value), mark_name(v.value))
  end
  state.counted = state.counted + 1
  local beyond = 1
  while beyond <= v.value do beyond = beyond * 2 end
  if state.window and state.window % beyond == 0 then
    computed(item, f.direction, range, v.direction)
    access(item, range, clock, state.window + v.value)
  end
  return string.format("Tag %s: %s, offset %s", decimal(clock), RW[v.direction], hex(v.value))
end
MEANING[FAULT] = function(v, item, range, state)
  local clock = pass(state, v.delta)
  computed(item, f.clock.fault, range, u64(clock))
  return string.format("Fault %s: %s, bank %d", decimal(clock), FAULTS[v.kind], v.bank)
end
MEANING[PAGE] = function(v, item, range, state)
  local clock, address = pass(state, v.delta), physical(state, v.number)
  state.counted = state.counted + v.reads + v.writes
  computed(item, f.clock.page, range, u64(clock))
  computed(item, f.address.page, range, u64(address))
  return string.format("Page %s: %s, %d reads, %d writes in %s", decimal(clock), hex(address), v.reads,
    v.writes, plural(v.duration, "clock"))
end
MEANING[PAGE_LONG] = MEANING[PAGE]
MEANING[SLICE] = function(v, _, _, state)
  if state.unit == 0 then state.counted = state.counted + v.reads + v.writes end
  return string.format("Slice %s: %s reads, %s writes, %s", decimal(v.clock), decimal(v.reads),
    decimal(v.writes), v.length and "cut after " .. plural(v.length, "clock") or "length code " .. v.code)
end
MEANING[INTERVAL] = function(v)
  return string.format("Interval %s: %s", decimal(v.clock), v.part == 63 and "all" or "part " .. v.part)
end
MEANING[COUNT] = function(v)
  return string.format("Count of dump %d: %s %d is %s", v.dump, GROUPS[v.group], v.index, decimal(v.value))
end
MEANING[HOT_PAGE] = function(v, item, range)
  computed(item, f.address.hot_page, range, u64(v.page * 4096))
  return string.format("Hot page of dump %d: %s, %s to %s accesses and those skipped", v.dump, hex(v.page * 4096),
    decimal(v.count), decimal(floor((v.count + v.votes) / 2)))
end

-- Returns the number of words of a record, or nil and the reason why it is invalid.
local function word_count(tvb, at)
  local kind = tvb(at, 8):bitfield(6, 4)
  if not WORD[kind] then return nil, "unknown record kind " .. kind end
  if kind == FAULT and not FAULTS[tvb(at, 8):bitfield(26, 6)] then return nil, "unknown fault kind" end
  if kind == COUNT and not GROUPS[tvb(at, 8):bitfield(18, 4)] then return nil, "unknown group of counts" end
  if kind == SLICE then return 2 + tvb(at, 8):bitfield(15, 1) end
  return (kind == PAGE_LONG or kind == HOT_PAGE) and 2 or 1
end

local function word_record(tree, tvb, at, words, state)
  local kind, range = tvb(at, 8):bitfield(6, 4), tvb(at, 8 * words)
  local item = tree:add(f.record, range, kind)
  local values = show(item, tvb, at, WORD[kind])
  if words == 3 then values.length = show(item, tvb, at, SLICE_LENGTH).length end
  state.records = state.records + 1
  item:set_text(MEANING[kind](values, item, range, state))
end

-- Decodes the records between two offsets; returns the state after them.
local function records(tree, tvb, at, stop, sync, window)
  local state = { clock = sync.clock, segment = sync.segment, unit = sync.unit, window = window,
    counted = 0, records = 0 }
  local shown, bytes = tree_of_records(tree), tvb:raw(0, stop)
  while at < stop do
    local a, b, c, d, p, q, r, s = bytes:byte(at + 1, at + 8) -- one call, because this line takes most of the time
    local high, low = ((a * 256 + b) * 256 + c) * 256 + d, ((p * 256 + q) * 256 + r) * 256 + s
    local words, why = 1, nil
    if high >= 0xfc000000 then
      words, why = word_count(tvb, at)
      if words and at + 8 * words > stop then why = "the last word of a record is missing" end
    elseif low >= 0xfc000000 then
      why = "word record in a low half"
    end
    if why then
      malformed(tree, why .. ": unreadable from word " .. decimal((at - HEADER_BYTES) / 8))
      break
    elseif high >= 0xfc000000 then
      word_record(shown, tvb, at, words, state)
    else
      half_record(shown, tvb, at, high, state)
      half_record(shown, tvb, at + 4, low, state)
    end
    at = at + 8 * words
  end
  return state
end

-- Decodes a report with its address map; returns nil if it is malformed.
local function report(tree, tvb, stop)
  local start, words = HEADER_BYTES, (stop - HEADER_BYTES) / 8
  if words < REPORT_WORDS then return malformed(tree, "report of only " .. decimal(words) .. " words") end
  local said = tree:add(tvb(start + 16, stop - start - 16), "Report")
  local v = show(said, tvb, start, REPORT)
  if v.version ~= VERSION then return malformed(tree, "report of version " .. v.version) end
  if words < REPORT_WORDS + v.columns + v.rows + v.banks + v.ranks then
    return malformed(tree, "the address map needs more words than the report has")
  end
  local at, map = start + 8 * REPORT_WORDS, said:add(tvb(start + 8 * REPORT_WORDS), "Address map")
  for _, axis in ipairs { "column", "row", "bank", "rank" } do
    for bit = 0, v[axis .. "s"] - 1 do
      map:add(f.map, tvb(at, 8)):set_text(axis .. " bit " .. bit .. ": " .. tvb(at, 8):uint64():tohex())
      at = at + 8
    end
  end
  if fnv1a(tvb:raw(start + 64, at - start - 64)) ~= tvb(start + 56, 8):uint64() then
    return malformed(tree, "the digest is not that of the memory description")
  end
  return v
end

-- Decodes the words of a frame for judge(); returns the text for the Info column.
local function body(frame, tree, tvb, stop, window)
  local at, name = HEADER_BYTES, KINDS[frame.kind]
  if frame.kind == HEARTBEAT then
    frame.beat = show(tree, tvb, at, BEAT)
    local state = frame.beat.running == 1 and "runs" or "is stopped"
    if frame.beat.running == 0 then tree:add_proto_expert_info(e.clock_lost, "The DDR clock is stopped") end
    return string.format("%s, DDR clock %s, losses %d", name, state, frame.beat.losses)
  end
  local sync = show(tree:add(tvb(at, 16), "Sync"), tvb, at, SYNC)
  frame.sync, frame.counted = sync, 0
  if sync.lost % 2 ^ 16 ~= tvb(2, 2):uint() then
    malformed(tree, "the header's lost records are not the sync's")
  end
  if frame.kind == DATA then
    local state = records(tree, tvb, at + 16, stop, sync, window)
    frame.counted = state.counted
    return string.format("%s %s, clock %s..%s, lost %d", name, plural(state.records, "record"),
      decimal(sync.clock), decimal(state.clock), sync.lost)
  end
  if frame.kind == END then tree:add_proto_expert_info(e.ended) end
  frame.report = report(tree, tvb, stop)
  local said = frame.report and string.format(", mode %s, reads %s, writes %s, faults %s",
    MODES[frame.report.mode] or "unknown", decimal(frame.report.reads), decimal(frame.report.writes),
    decimal(frame.report.faults)) or ""
  return string.format("%s, clock %s%s, lost %d", name, decimal(sync.clock), said, sync.lost)
end

-- Returns the reason why the words of a frame cannot be decoded, or nil.
local function unreadable(tvb)
  if tvb:len() < HEADER_BYTES then return "frame ends within its header" end
  local version, kind, words = tvb(0, 1):bitfield(0, 4), tvb(0, 1):bitfield(4, 4), tvb(1, 1):uint()
  local present = floor((tvb:len() - HEADER_BYTES) / 8)
  if version ~= VERSION then return "format version " .. version .. " is not known" end
  if not KINDS[kind] then return "frame kind " .. kind .. " is not known" end
  if words < 2 or words > MAX_WORDS then return words .. " words stated, a frame has 2 to " .. MAX_WORDS end
  if words > present then return words .. " words stated, only " .. present .. " present" end
  if kind == HEARTBEAT and not (words == 2 and tvb(2, 2):uint() == 0 and tvb(4, 1):bitfield(1, 7) == 0
      and tvb(5, 4):uint() == 0 and tvb(9, 1):uint() == 0 and tvb(12, 2):uint() == 0) then
    return "a heartbeat with other content"
  end
end

-- The dissector of an EtherType does not get the Ethernet header, whose fields Wireshark passes only as text, or only if a
-- tree is built. A heuristic dissector gets the whole frame; this one rejects every frame.
local header = {}
hmtt:register_heuristic("eth", function(tvb, pinfo)
  header.number = nil
  if tvb:len() >= 14 and tvb(0, 4):uint() == 0x02484d54 and tvb(4, 3):uint() == 0x540002 then
    header.number, header.counter = pinfo.number, tvb(7, 1):uint() * 2 ^ 32 + tvb(8, 4):uint()
  end
  return false
end)

function hmtt.dissector(tvb, pinfo, tree)
  if header.number ~= pinfo.number then return 0 end -- a frame of another protocol with this EtherType
  local number, frame = pinfo.number, { counter = header.counter }
  local again = number <= past.read
  if not again then past.windows[number] = past.window end
  pinfo.cols.protocol = "HMTT"
  local top = tree:add(hmtt, tvb(), "HMTT memory trace, frame " .. decimal(frame.counter))
  computed(top, f.counter, tvb(0, 0), u64(frame.counter))
  if tvb:len() >= HEADER_BYTES then
    top:add(f.version, tvb(0, 1))
    top:add(f.kind, tvb(0, 1))
    top:add(f.words, tvb(1, 1))
    top:add(f.lost, tvb(2, 2))
  end
  local text, why = nil, unreadable(tvb)
  if why then
    malformed(top, why)
    text = "Unreadable: " .. why
  else
    frame.kind = tvb(0, 1):bitfield(4, 4)
    text = body(frame, top, tvb, HEADER_BYTES + 8 * tvb(1, 1):uint(), past.windows[number])
  end
  pinfo.cols.info = text
  if not again then
    frame.bytes = tvb:raw(0, tvb:len())
    past.read, past.verdicts[number] = number, judge(frame)
  end
  if past.verdicts[number] then add_verdict(past.verdicts[number], frame, top, pinfo.cols.info) end
  return tvb:len()
end

DissectorTable.get("ethertype"):add(ETHER_TYPE, hmtt)
