// Rows of bars: a name above each bar, whose parts are beside each other.

const ROW = 30;

function rowBars(chart) {
  const { labels, texts: words, names, values } = chart,
    count = labels.length,
    spec = axes(chart, {});
  const sums = labels.map((_, at) => values.reduce((sum, list) => sum + list[at], 0));
  return {
    ...spec,
    height: MARGIN.top + MARGIN.bottom + count * ROW,
    rows: count,
    stops: [...new Set(sums)].sort((one, other) => one - other),
    yText: null,
    legend: names.map((name, index) => [colours[index], name]),
    draw(content, x, y, frame) {
      const high = (frame.bottom - frame.top) / count,
        base = labels.map(() => 0);
      values.forEach((list, part) => {
        let path = "";
        list.forEach((value, at) => {
          const top = frame.top + at * high;
          if (value > 0) path += box(x(base[at]), x(base[at] + value), top + 0.9 * high, top + 0.53 * high);
          base[at] += value;
        });
        content.append(node("path", { class: colours[part], d: path || "M0 0" }));
      });
      labels.forEach((label, at) =>
        frame.svg.append(node("text", { x: frame.left + 4, y: frame.top + (at + 0.36) * high }, label)),
      );
    },
    read: (_, part) => words[Math.min(Math.max(Math.floor(part * count), 0), count - 1)] || "",
  };
}
