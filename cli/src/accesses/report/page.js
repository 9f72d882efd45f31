// Draws all charts, and lets the user choose a memory.

// Width of charts in print: that of paper of A4 size without margins and the border of a section, in pixels of which an inch has 96.
const PAPER = 660;

// Shows the charts and tables of one memory, which is chosen from a list.
function chooseMemory(memories) {
  const made = html("section", "wide choice"),
    list = html("select");
  made.append(html("h2", "", "Memory"));
  made.append(html("p", "about", "The charts over time are those of one memory; all others are of all memories."));
  list.setAttribute("aria-label", "memory");
  data.memories.forEach(([name], number) => list.append(new Option(name, number)));
  const show = (number) => memories.forEach((memory, index) => (memory.hidden = index !== number));
  list.addEventListener("change", () => show(Number(list.value)));
  made.append(list);
  memories[0].before(made);
  show(0);
}

function start() {
  const memories = [...document.querySelectorAll(".memory")];
  if (memories.length > 1) chooseMemory(memories);
  const elements = [...document.querySelectorAll("section.chart")];
  const all = [data.first, ...data.memories.map(([, parts]) => parts), data.last];
  const charts = all.flatMap((parts) => drawCharts(parts, elements));
  addEventListener("beforeprint", () => charts.forEach((chart) => chart.draw(PAPER)));
  addEventListener("afterprint", () => charts.forEach((chart) => chart.draw()));
}

start();
