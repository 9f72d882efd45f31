// The parts of the page that need a script: charts. Tables and sentences are in the page without it.

const data = JSON.parse(document.getElementById("data").textContent);

// Draws the charts of parts into their elements, which it takes from a list. Those over time are zoomed together.
function drawCharts(parts, elements) {
  const view = {};
  const kinds = { time: overTime, curves: curve, bars, rows: rowBars, heat: heatMap };
  const charts = parts
    .filter((part) => part.part === "chart")
    .map((part) => new Chart(kinds[part.kind](part, part.is_time ? view : {}), elements.shift()));
  charts.forEach((chart) => chart.draw());
  return charts;
}
