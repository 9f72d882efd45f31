// The kinds of charts: values over time, curves and bars. Each makes the spec of a chart from what the page's data has.

const texts = { count, bytes, bytes_per_second: perSecond, seconds, share: percent };
const colours = ["c0", "c1", "c2"];
const lines = ["l0", "l1", "l2"];

// A box as part of a path.
function box(left, right, bottom, top) {
  const [from, to, low, high] = [left, right, bottom, top].map((one) => one.toFixed(2));
  return `M${from} ${low}V${high}H${to}V${low}Z`;
}

// What the axes of all kinds have.
function axes(chart, view) {
  return {
    title: chart.title,
    extent: chart.extent,
    view,
    xName: chart.x.name,
    yName: chart.y.name,
    xTicks: ticks,
    xText: texts[chart.x.unit],
    yText: texts[chart.y.unit],
  };
}

// Values over time.
function overTime(chart, view) {
  const { style, slices, series, marks, borders, limit } = chart;
  const spec = axes(chart, view),
    isStacked = style === "stacked",
    isLine = style === "steps";
  const value = (one, at) => one.values[at];
  // The slice of a series at a time, or -1.
  const find = ({ begins, width }, at) => begins.findIndex((begin) => at >= begin && at < begin + width);
  const inside = ({ begins, width }, from, to) =>
    begins.flatMap((begin, at) => (begin <= to && begin + width >= from ? [at] : []));
  const highest = (from, to) => {
    const all = slices.map((of) => inside(of, from, to));
    let most = 0;
    if (isStacked) {
      for (const at of all[0]) most = Math.max(most, series.reduce((sum, one) => sum + value(one, at), 0));
    } else {
      for (const one of series) for (const at of all[one.slices]) most = Math.max(most, value(one, at));
    }
    return Math.max(most, limit ? limit.value : 0) * 1.05;
  };
  const area = (of, x, y, frame, base, one) => {
    let path = "";
    for (const at of inside(of, frame.from, frame.to)) {
      const left = x(of.begins[at]),
        right = Math.max(x(of.begins[at] + of.width), left + 0.6);
      const from = base ? base[at] : 0;
      if (value(one, at) > 0) path += box(left, right, y(from), y(from + value(one, at)));
      if (base) base[at] += value(one, at);
    }
    return path || "M0 0";
  };
  const steps = (of, x, y, frame, one) => {
    let path = "",
      end = null;
    for (const at of inside(of, frame.from, frame.to)) {
      const begin = of.begins[at],
        isNext = end !== null && Math.abs(begin - end) < of.width / 2;
      path += `${isNext ? "L" : "M"}${x(begin).toFixed(2)} ${y(value(one, at)).toFixed(2)}H${x(begin + of.width).toFixed(2)}`;
      end = begin + of.width;
    }
    return path || "M0 0";
  };
  const finest = slices.reduce((best, of) => (of.width < best.width ? of : best), slices[0]);
  return {
    ...spec,
    stops: finest.begins.map((begin) => begin + finest.width / 2),
    legend: series
      .map((one) => [colours[one.colour], one.name])
      .concat(marks.length ? [["c3", "gaps"]] : [], limit ? [["c3", limit.name]] : []),
    top: highest,
    draw(content, x, y, frame) {
      const base = isStacked ? slices[0].begins.map(() => 0) : null;
      for (const one of series) {
        const of = slices[one.slices];
        const made = isLine
          ? { class: `line ${lines[one.colour]}`, d: steps(of, x, y, frame, one) }
          : { class: colours[one.colour], d: area(of, x, y, frame, base, one) };
        content.append(node("path", made));
      }
      const vertical = (name, at) =>
        content.append(node("line", { class: name, x1: x(at), x2: x(at), y1: frame.top, y2: frame.bottom }));
      marks.forEach((mark) => vertical("mark", mark.at));
      borders.forEach((at) => vertical("border", at));
      if (limit) {
        const at = y(limit.value);
        content.append(node("line", { class: "limit", x1: frame.left, x2: frame.right, y1: at, y2: at }));
      }
    },
    read(at) {
      const values = series.flatMap((one) => {
        const index = find(slices[one.slices], at);
        return index < 0 ? [] : [`${one.name} ${spec.yText(value(one, index))}`];
      });
      const mark = marks.find((one) => Math.abs(one.at - at) <= slices[0].width / 2);
      if (mark) values.push(mark.text);
      return `${spec.xText(at)}: ${values.length ? values.join(", ") : "no accesses"}`;
    },
  };
}

// Curves over a logarithmic axis.
function curve(chart) {
  const { curves } = chart,
    spec = axes(chart, {});
  const nearest = (points, place) =>
    points.reduce((best, point) => (Math.abs(point[0] - place) < Math.abs(best[0] - place) ? point : best));
  const xText = (place) => texts[chart.x.unit](2 ** place);
  const drawn = curves.filter((one) => one.points.length);
  return {
    ...spec,
    stops: [...new Set(drawn.flatMap((one) => one.points.map(([x]) => x)))].sort((one, other) => one - other),
    xTicks: powers,
    xText,
    legend: curves.length > 1 ? curves.map((one, index) => [colours[index], one.name]) : null,
    top: () => 1,
    draw(content, x, y) {
      curves.forEach(({ points }, index) => {
        const path = points
          .map((point, at) => `${at ? "L" : "M"}${x(point[0]).toFixed(2)} ${y(point[1]).toFixed(2)}`)
          .join("");
        content.append(node("path", { class: `line ${lines[index]}`, d: path || "M0 0" }));
        if (points.length < 64)
          points.forEach((point) =>
            content.append(node("circle", { class: colours[index], cx: x(point[0]), cy: y(point[1]), r: 3 })),
          );
      });
    },
    read(place) {
      const at = nearest(drawn[0].points, place)[0];
      const values = drawn.map((one) => `${one.name} ${percent(nearest(one.points, place)[1])}`);
      return `${chart.x.name} ${xText(at)}: ${values.join(", ")}`;
    },
  };
}

// Groups of bars of ranges. The last one may be set apart.
function bars(chart) {
  const { begins, apart, labels, names, values } = chart,
    spec = axes(chart, {});
  const width = 0.84 / Math.max(values.length, 1),
    end = begins.length - 1,
    hasOwnColour = apart !== null && names.length === 1;
  const shown = hasOwnColour ? names.concat(apart) : names;
  // The group at a place, or the one before it.
  const find = (place) => Math.max(begins.filter((begin) => begin <= place).length - 1, 0);
  return {
    ...spec,
    stops: begins.map((begin) => begin + 0.5),
    xTicks: (from, to) => begins.map((begin) => begin + 0.5).filter((at) => at >= from && at <= to),
    xText: (place) => labels[find(place)] || "",
    keepsLast: true,
    legend: shown.length > 1 ? shown.map((name, index) => [colours[index], name]) : null,
    top: (from, to) =>
      Math.max(
        0,
        ...values.flatMap((list) => list.filter((_, index) => begins[index] < to && begins[index] + 1 > from)),
      ) * 1.05,
    draw(content, x, y, frame) {
      if (apart !== null && end > 0) {
        const at = x((begins[end - 1] + 1 + begins[end]) / 2);
        content.append(node("line", { class: "axis", x1: at, x2: at, y1: frame.top, y2: frame.bottom }));
      }
      values.forEach((list, group) =>
        list.forEach((value, index) => {
          const begin = begins[index] + 0.08,
            left = x(begin + group * width),
            height = Math.max(y(0) - y(value), 0);
          content.append(
            node("rect", {
              class: colours[hasOwnColour && index === end ? group + 1 : group],
              x: left,
              y: frame.bottom - height,
              width: Math.max(x(begin + (group + 1) * width) - left, 0.5),
              height,
            }),
          );
        }),
      );
    },
    read: (place) => chart.texts[find(place)] || "",
  };
}
