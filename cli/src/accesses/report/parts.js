// The parts of the page: charts, tables, and sentences in place of what is not known.

const data = JSON.parse(document.getElementById("data").textContent);

// States why there is no chart.
function absent({ title, reason, wide }) {
  const made = section({ title }, wide ? "wide" : "");
  made.append(html("p", "absent", reason));
  return made;
}

// A table with a heading. Rows that differ are marked.
function table({ title, about, heads, rows, marked, wide }) {
  const made = section({ title, about }, wide ? "wide" : "");
  const scroll = html("div", "scroll"),
    all = html("table"),
    head = html("tr");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", title);
  heads.forEach((text) => head.append(html("th", "", text)));
  all.append(head);
  rows.forEach((row, at) => {
    const isMarked = marked.includes(at),
      line = html("tr", isMarked ? "differs" : "");
    row.forEach((text, column) => line.append(html("td", "", isMarked && column === 0 ? `${text} *` : text)));
    all.append(line);
  });
  scroll.append(all);
  made.append(scroll);
  return made;
}

// A part, as an element or a chart. `view`: that of charts which are zoomed together.
function make(part, view) {
  if (part.part === "absent") return absent(part);
  if (part.part === "table") return table(part);
  const kinds = { time: overTime, curves: curve, bars, rows: rowBars, heat: heatMap };
  return new Chart(kinds[part.kind](part, part.is_time ? view : {}));
}

// Makes parts, puts them at a place, and draws the charts.
function put(place, parts) {
  const view = {},
    made = parts.map((part) => make(part, view));
  place.replaceChildren(...made.map((one) => one.element || one));
  place.charts = made.filter((one) => one.draw);
  place.charts.forEach((chart) => chart.draw());
}
