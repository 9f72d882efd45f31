// The charts over time of one memory.

// The limit of the bus in words.
function busLimit(most, y) {
  if (!y) return "The limit of the bus is not known: the source has no description of its memory.";
  const limit = `The bus transfers at most ${perSecond(y)}`;
  if (most <= y / 20) return `${limit}; the line is far above the values, and not drawn.`;
  const short = " An access counts whole in the slice in which it begins, so that short slices can exceed it.";
  return `${limit} (dashed line).${most > y ? short : ""}`;
}

function bandwidth(memory, source, view) {
  const title = "Bandwidth over time";
  if (!memory.slice_seconds) return absent(title, "Not known: accesses have no clock whose period is known.", "wide");
  if (memory.slices.some((one) => one.unsized_accesses))
    return absent(title, "Not known: some accesses have no known size.", "wide");
  const most = Math.max(...memory.slices.map((one) => one.access_bytes)) / memory.slice_seconds;
  const y = source && source.bus_bytes_per_second;
  return new Chart(
    columns({
      title,
      about: busLimit(most, y),
      memory,
      view,
      className: "wide",
      limit: y ? { y, isShown: most > y / 20 } : null,
      yText: perSecond,
      rate: 1 / memory.slice_seconds,
      series: [["c0", "bandwidth", (one) => one.access_bytes]],
    }),
  );
}

// How long slices are, and in what the axis is.
function slicing(memory) {
  if (memory.slice_seconds) return `${seconds(memory.slice_seconds)}.`;
  if (memory.slice_unit === "clocks")
    return `${counted(memory.slice_length, "clock")}. The clock's period is not known: the axis is in clocks.`;
  return `${counted(memory.slice_length, "access")}. Time is not known: the axis counts accesses.`;
}

function frequency(memory, view) {
  const series = [
    ["c0", "reads", (one) => one.reads],
    ["c1", "writes", (one) => one.writes],
  ];
  const about = `Reads and writes in slices of ${slicing(memory)}`;
  return new Chart(
    columns({ title: "Accesses over time", about, memory, view, className: "wide", yText: count, series }),
  );
}

function workingSet(memory, view, phases) {
  const { scale } = timeOf(memory);
  return new Chart(
    columns({
      title: "Working set over time",
      about: "Distinct pages in each slice, and those that no earlier slice has. Dashed lines are borders of phases.",
      memory,
      view,
      isStacked: false,
      className: "wide",
      yText: count,
      borders: phases.slice(1).map((phase) => phase.first_slice * scale),
      series: [
        ["c2", "pages", (one) => one.pages],
        ["c1", "new pages", (one) => one.new_pages],
      ],
    }),
  );
}

function addresses(heat, view, extent) {
  const about =
    `Accesses by address and time, in blocks of ${bytes(heat.block_bytes)}; blocks without accesses are left out. ` +
    "The scale is logarithmic.";
  return new Chart(heatMap({ title: "Addresses over time", about, heat, view, className: "wide", extent }));
}

// Charts and tables of a memory.
function overTime(number) {
  const [memory, heat, of] = [report.timeline[number], report.heat_map[number], report.phases[number]];
  const source = data.sources[number];
  if (!memory || !memory.slices.length) return [];
  const view = {};
  const rate = frequency(memory, view);
  const made = [
    memory.gaps.length ? gapTable(memory, source) : absent("Gaps", "None is known."),
    rate,
    bandwidth(memory, source, view),
    workingSet(memory, view, of.phases),
  ];
  if (heat && heat.blocks.length) made.push(addresses(heat, view, rate.spec.extent));
  return made.concat(phaseTable(memory, of));
}
