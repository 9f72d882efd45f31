// Puts charts and tables on the page.

const main = document.getElementById("charts");

// Shows the charts over time of a memory in place of others.
function choose(number, place) {
  const made = overTime(number);
  place.replaceChildren(...made.map((one) => one.element || one));
  place.charts = made.filter((one) => one.draw);
  place.charts.forEach((chart) => chart.draw());
}

function start() {
  const place = html("div", "wide");
  place.style.display = "contents";
  main.append(sums());
  if (report.timeline.length > 1) {
    const made = section({
      title: "Memory",
      about: "The charts over time are those of one memory; all others are of all memories.",
    });
    const list = html("select");
    list.setAttribute("aria-label", "memory");
    report.timeline.forEach((one, number) =>
      list.append(new Option(`source ${one.source}: ${(data.sources[number] || {}).file || ""}`, number)),
    );
    list.addEventListener("change", () => choose(Number(list.value), place));
    made.append(list);
    main.append(made);
  }
  const all = together();
  main.append(place, ...all.map((one) => one.element || one));
  all.filter((one) => one.draw).forEach((chart) => chart.draw());
  choose(0, place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    place.charts
      .filter((chart) => chart.spec.recolour)
      .forEach((chart) => {
        chart.spec.recolour();
        chart.draw();
      });
  });
}

start();
