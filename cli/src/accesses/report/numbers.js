// Numbers with units, and ticks of axes.

function scaled(value, units, least, digits = 4) {
  const found = units.find(([size]) => Math.abs(value) >= size) || least || units[units.length - 1];
  return Number((value / found[0]).toPrecision(digits)) + found[1];
}

const count = (value) =>
  scaled(
    value,
    [
      [1e12, " T"],
      [1e9, " G"],
      [1e6, " M"],
      [1e3, " k"],
      [1, ""],
    ],
    [1, ""],
  );
const exact = (value) => Math.round(value).toLocaleString("en");
const bytes = (value) =>
  scaled(
    value,
    [
      [2 ** 40, " TiB"],
      [2 ** 30, " GiB"],
      [2 ** 20, " MiB"],
      [2 ** 10, " KiB"],
      [1, " B"],
    ],
    [1, " B"],
  );
const perSecond = (value) =>
  scaled(
    value,
    [
      [1e9, " GB/s"],
      [1e6, " MB/s"],
      [1e3, " kB/s"],
      [1, " B/s"],
    ],
    [1, " B/s"],
  );
const seconds = (value) =>
  scaled(
    value,
    [
      [1, " s"],
      [1e-3, " ms"],
      [1e-6, " us"],
      [1e-9, " ns"],
    ],
    [1, " s"],
    // Times may begin far from 0.
    9,
  );
const percent = (value) => Number((100 * value).toFixed(2)) + " %";
// A number of so many things: with an s unless it is one.
const counted = (value, noun) => `${exact(value)} ${noun}${value === 1 ? "" : /(s|ch)$/.test(noun) ? "es" : "s"}`;

// Round numbers from one to another, at most so many.
function ticks(from, to, most) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const rough = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((of) => of * power).find((of) => of >= rough);
  const first = Math.ceil(from / step) * step;
  const all = [];
  // Large numbers may not change by a small step.
  for (let index = 0; index <= most + 1; index++) {
    const at = first + index * step;
    if (at > to + step * 1e-6) break;
    if (at !== all[all.length - 1]) all.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  }
  return all;
}

// Whole powers of two between two logarithms, at most so many.
function powers(from, to, most) {
  const step = Math.max(1, Math.ceil((to - from) / Math.max(most, 1)));
  const all = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) all.push(at);
  return all;
}
