// Puts the parts on the page.

const main = document.getElementById("charts");

function start() {
  const places = ["first", "memories", "last"].map(() => html("div", "wide"));
  const [first, memories, last] = places;
  places.forEach((place) => (place.style.display = "contents"));
  main.append(first);
  if (data.memories.length > 1) {
    const made = section({
      title: "Memory",
      about: "The charts over time are those of one memory; all others are of all memories.",
    });
    const list = html("select");
    list.setAttribute("aria-label", "memory");
    data.memories.forEach(([name], number) => list.append(new Option(name, number)));
    list.addEventListener("change", () => put(memories, data.memories[Number(list.value)][1]));
    made.append(list);
    main.append(made);
  }
  main.append(memories, last);
  put(first, data.first);
  put(last, data.last);
  if (data.memories.length) put(memories, data.memories[0][1]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of places.flatMap((place) => place.charts || []).filter((one) => one.spec.recolour)) {
      chart.spec.recolour();
      chart.draw();
    }
  });
}

start();
