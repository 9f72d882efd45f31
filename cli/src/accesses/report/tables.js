// Tables, and what stands in place of something unknown.

const data = JSON.parse(document.getElementById("data").textContent);
const report = data.report;

// A part of the page that states why there is no chart.
function absent(title, reason, className) {
  const made = section({ title }, className);
  made.append(html("p", "absent", reason));
  return made;
}

// A table with a heading. `monospaced`: the column of addresses.
function table(title, about, heads, rows, monospaced) {
  const made = section({ title, about });
  const scroll = html("div", "scroll"),
    all = html("table"),
    head = html("tr");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", title);
  heads.forEach((text) => head.append(html("th", "", text)));
  all.append(head);
  for (const row of rows) {
    const line = html("tr");
    row.forEach((text, column) => line.append(html("td", column === monospaced ? "mono" : "", text)));
    all.append(line);
  }
  scroll.append(all);
  made.append(scroll);
  return made;
}

// A part of a whole, and the limits of a range.
const share = (part, whole) => (whole > 0 ? percent(part / whole) : "-");
const range = (one, from, to) =>
  one[from] === one[to] ? exact(one[from]) : `${exact(one[from])} to ${exact(one[to])}`;

// The sums over all memories.
function sums() {
  const of = report.stats;
  const rows = [
    ["accesses", exact(of.accesses)],
    ["reads", `${exact(of.reads)} (${share(of.reads, of.accesses)})`],
    ["writes", `${exact(of.writes)} (${share(of.writes, of.accesses)})`],
    ["pages of 4 KiB", `${exact(of.pages)} (${bytes(of.pages * 4096)})`],
    ["lines of 64 bytes", `${exact(of.lines)} (${bytes(of.lines * 64)})`],
  ];
  rows.push([
    "bytes accessed",
    of.unsized_accesses ? `not known of ${counted(of.unsized_accesses, "access")}` : bytes(of.access_bytes),
  ]);
  rows.push([
    "time",
    of.duration_seconds !== null
      ? seconds(of.duration_seconds)
      : of.duration_clocks !== null
        ? counted(of.duration_clocks, "clock")
        : "not known",
  ]);
  rows.push(["mean bandwidth", of.bytes_per_second !== null ? perSecond(of.bytes_per_second) : "not known"]);
  if (of.thread_count !== null) rows.push(["threads", exact(of.thread_count)]);
  return table("Sums", "", ["", "all memories"], rows);
}

// Pages or lines with most touches.
function hottest(title, list) {
  const { touches } = report.hot;
  const rows = list.map((one) => [one.address, String(one.source), exact(one.touches), share(one.touches, touches)]);
  return table(
    title,
    "An access touches each line that it has bytes of.",
    ["address", "source", "touches", "of all"],
    rows,
    0,
  );
}

// The phases of a memory.
function phaseTable(memory, of) {
  const time = timeOf(memory);
  const rows = of.phases.map((one) => [
    time.text(one.first_slice * time.scale),
    time.text((one.last_slice + 1) * time.scale),
    exact(one.accesses),
    bytes(one.slice_pages * 4096),
    exact(one.new_pages),
  ]);
  return table(
    "Phases",
    "Stretches between changes of the rate or of the working set.",
    ["from", "to", "accesses", "working set", "new pages"],
    rows,
  );
}

// The gaps of a memory. `source`: what is known of it.
function gapTable(memory, source) {
  const when = (clock) =>
    clock === null ? "-" : source && source.tck_ps ? seconds(clock * source.tck_ps * 1e-12) : exact(clock);
  const rows = memory.gaps.map((gap) => [
    when(gap.after_clock),
    when(gap.before_clock),
    gap.lost_accesses === null ? "not known" : exact(gap.lost_accesses),
  ]);
  return table(
    "Gaps",
    "Places at which accesses are missing, by the clocks before and behind them; at most the first 100.",
    ["after", "before", "lost accesses"],
    rows,
  );
}
