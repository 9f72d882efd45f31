// The kinds of charts: columns over time, curves and bars. Each makes the spec of a chart.

// Time as it is drawn: seconds, clocks or accesses. The columns of a list of slices, from the first one to the last.
function timeOf(memory) {
  const scale = memory.slice_seconds || memory.slice_length;
  const text = memory.slice_seconds ? seconds : count;
  const unit = memory.slice_seconds ? "time" : memory.slice_unit === "clocks" ? "clocks" : "accesses";
  return { scale, text, unit };
}

// A box as part of a path.
function box(left, right, bottom, top) {
  const [from, to, low, high] = [left, right, bottom, top].map((one) => one.toFixed(2));
  return `M${from} ${low}V${high}H${to}V${low}Z`;
}

// Stacked columns over time. `series`: [class, name, value of a slice]. `limit`: { y, name }.
function columns(options) {
  const { memory, series, view, yText, rate, limit, borders } = options;
  const time = timeOf(memory),
    slices = memory.slices;
  const sums = slices.map((slice) => series.map(([, , value]) => value(slice) * (rate || 1)));
  const begin = (slice) => slice.slice * time.scale;
  const total = (values) =>
    options.isStacked === false ? Math.max(...values) : values.reduce((sum, one) => sum + one, 0);
  const inside = (from, to) =>
    slices.flatMap((slice, at) => (begin(slice) <= to && begin(slice) + time.scale >= from ? [at] : []));
  const find = (at) => slices.findIndex((slice) => at >= begin(slice) && at < begin(slice) + time.scale);
  const first = slices[0],
    last = slices[slices.length - 1];
  return {
    ...options,
    extent: [begin(first), begin(last) + time.scale],
    view,
    stops: slices.map((slice) => begin(slice) + time.scale / 2),
    xTicks: ticks,
    xText: time.text,
    yText,
    legend: series
      .map(([className, name]) => [className, name])
      .concat(slices.some((one) => one.gap_count) ? [["c3", "gaps"]] : []),
    top: (from, to) =>
      Math.max(...inside(from, to).map((at) => total(sums[at])), limit && limit.isShown ? limit.y : 0) * 1.05,
    draw(content, x, y, frame) {
      const paths = series.map(() => "");
      for (const at of inside(frame.from, frame.to)) {
        const left = x(begin(slices[at])),
          right = Math.max(x(begin(slices[at]) + time.scale), left + 0.6);
        let base = 0;
        sums[at].forEach((value, index) => {
          const from = options.isStacked === false ? 0 : base;
          if (value > 0) paths[index] += box(left, right, y(from), y(from + value));
          base += value;
        });
      }
      paths.forEach((path, index) => content.append(node("path", { class: series[index][0], d: path || "M0 0" })));
      for (const slice of slices.filter((one) => one.gap_count)) {
        const at = x(begin(slice) + time.scale / 2);
        content.append(node("line", { class: "mark", x1: at, x2: at, y1: frame.top, y2: frame.bottom }));
      }
      for (const at of borders || [])
        content.append(node("line", { class: "border", x1: x(at), x2: x(at), y1: frame.top, y2: frame.bottom }));
      if (limit && limit.isShown)
        content.append(
          node("line", { class: "limit", x1: frame.left, x2: frame.right, y1: y(limit.y), y2: y(limit.y) }),
        );
    },
    read(at) {
      const index = find(at);
      if (index < 0) return `${time.text(at)}: no accesses`;
      const slice = slices[index];
      const values = series.map(([, name], one) => `${name} ${yText(sums[index][one])}`);
      if (slice.gap_count)
        values.push(`${counted(slice.gap_count, "gap")}, ${counted(slice.lost_accesses, "access")} known to be lost`);
      return `${time.text(begin(slice))}: ${values.join(", ")}`;
    },
  };
}

// A curve over a logarithmic axis. `points`: [x, y], the y from 0 to 1.
function curve(options) {
  const { points, xName, yName, xValue } = options;
  const at = points.map(([x]) => Math.log2(x));
  const nearest = (place) =>
    at.reduce((best, one, index) => (Math.abs(one - place) < Math.abs(at[best] - place) ? index : best), 0);
  return {
    ...options,
    extent: [at[0], Math.max(at[at.length - 1], at[0] + 1)],
    view: {},
    stops: at,
    xTicks: powers,
    xText: (place) => xValue(2 ** place),
    yText: percent,
    top: () => 1,
    draw(content, x, y) {
      const path = points
        .map(([, value], index) => `${index ? "L" : "M"}${x(at[index]).toFixed(2)} ${y(value).toFixed(2)}`)
        .join("");
      content.append(node("path", { class: "line l0", d: path }));
      if (points.length < 64)
        points.forEach(([, value], index) =>
          content.append(node("circle", { class: "c0", cx: x(at[index]), cy: y(value), r: 3 })),
        );
    },
    read(place) {
      const [value, share] = points[nearest(place)];
      return `${xName} ${xValue(value)}: ${yName} ${percent(share)}`;
    },
  };
}

// Bars of ranges. `bars`: [text of the range, value, text of the value].
function bars(options) {
  const { list, yText } = options;
  return {
    ...options,
    extent: [0, list.length],
    view: {},
    stops: list.map((_, index) => index + 0.5),
    xTicks: (from, to, most) =>
      ticks(Math.floor(from), Math.ceil(to) - 1, most)
        .filter(Number.isInteger)
        .map((at) => at + 0.5),
    xText: (place) => (list[Math.floor(place)] || [""])[0],
    yText,
    top: (from, to) => Math.max(...list.slice(Math.floor(from), Math.ceil(to)).map((one) => one[1])) * 1.05,
    draw(content, x, y, frame) {
      list.forEach(([, value], index) => {
        const left = x(index + 0.08),
          height = Math.max(y(0) - y(value), 0);
        content.append(
          node("rect", {
            class: "c0",
            x: left,
            y: frame.bottom - height,
            width: Math.max(x(index + 0.92) - left, 0.5),
            height,
          }),
        );
      });
    },
    read(place) {
      const [, , text] = list[Math.min(Math.floor(place), list.length - 1)];
      return text;
    },
  };
}
