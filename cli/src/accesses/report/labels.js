// Labels of the lower axis: chooses those that do not overlap.

// Least distance of two labels, and about the width of a letter, in pixels.
const SPACE = 6;
const LETTER = 7;

// Adds labels below the plot: every nth, with the smallest n at which none overlap. `keepsLast`: the last one is always
// among them, and its neighbours make way.
function addLabels(svg, places, y, width, keepsLast) {
  const labels = places.map(({ x, text }) => {
    const half = (text.length * LETTER) / 2;
    return { text, half, x: Math.max(Math.min(x, width - half), half) };
  });
  const isClear = (left, right) => left.x + left.half + SPACE <= right.x - right.half;
  const last = keepsLast ? labels.slice(-1) : [];
  const regular = keepsLast ? labels.slice(0, -1) : labels;
  for (let step = 1; step <= labels.length; step++) {
    const chosen = regular
      .filter((label, index) => index % step === 0 && last.every((one) => isClear(label, one)))
      .concat(last);
    if (!chosen.every((label, index) => index === 0 || isClear(chosen[index - 1], label))) continue;
    for (const { x, text } of chosen) svg.append(node("text", { x, y, "text-anchor": "middle" }, text));
    return;
  }
}
