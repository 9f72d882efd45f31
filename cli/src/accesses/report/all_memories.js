// The charts of all memories together.

// Which part of all touches the hottest pages have.
function distributionChart() {
  return curve({
    title: "Distribution of touches over pages",
    about: "Part of all touches that the hottest pages have.",
    points: report.distribution.map((one) => [one.pages, one.touch_share]),
    xName: "hottest pages",
    yName: "have",
    xValue: count,
  });
}

// Touches in a row of one page.
function runChart() {
  const runs = report.hot.page_runs.map((one) => {
    const length = range(one, "at_least", "at_most");
    return [length, one.runs, `${length} touches in a row: ${counted(one.runs, "run")}`];
  });
  const about = "Touches in a row of one page, by a thread or card.";
  return bars({ title: "Run lengths on a page", about, list: runs, yText: count });
}

// What is estimated, if something is.
function sampled() {
  const rate = report.reuse.sampling_rate;
  return rate < 1 ? ` Estimated from ${percent(rate)} of all lines.` : "";
}

function reuseChart() {
  const { reuse } = report;
  const list = reuse.distances.map((one) => {
    const distance = range(one, "distance_at_least", "distance_at_most");
    const text = `distance ${distance}: ${counted(one.touches, "touch")} (${share(one.touches, reuse.touches)})`;
    return [count(one.distance_at_least), one.touches, text];
  });
  const first = `${exact(reuse.first_touches)} (${share(reuse.first_touches, reuse.touches)})`;
  list.push(["first", reuse.first_touches, `first touches: ${first}`]);
  const about = `Distinct lines touched between two touches of a line.${sampled()}`;
  return bars({ title: "Reuse distances", about, list, yText: count });
}

function missChart() {
  return curve({
    title: "Miss-ratio curve",
    about: `Part of touches that an LRU cache of each size misses, if any line can be anywhere in it.${sampled()}`,
    points: report.mrc.points.map((one) => [one.cache_bytes, one.miss_ratio]),
    xName: "cache of",
    yName: "misses",
    xValue: bytes,
  });
}

// Charts and tables of all memories.
function together() {
  if (!report.stats.accesses) return [absent("Charts", "There are no accesses.", "wide")];
  const misses = report.mrc.points.length
    ? new Chart(missChart())
    : absent("Miss-ratio curve", "The sample resolves no cache of the sizes that the lines would fill.");
  return [
    new Chart(distributionChart()),
    new Chart(runChart()),
    new Chart(reuseChart()),
    misses,
    hottest("Hottest pages", report.hot.hot_pages),
    hottest("Hottest lines", report.hot.hot_lines),
  ];
}
