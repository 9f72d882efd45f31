// Heat maps: accesses by row and time, as an image.

// The colours of no accesses, of few and of most, as red, green and blue. The style shows the image of the scheme, which
// is light in print.
const heatColours = {
  light: [
    [246, 248, 250],
    [110, 160, 230],
    [120, 20, 60],
  ],
  dark: [
    [28, 33, 41],
    [60, 80, 190],
    [255, 190, 90],
  ],
};

// The heat map as an image: a pixel for each row and slice.
function heatImage(rows, [none, some, all]) {
  const canvas = document.createElement("canvas");
  const height = rows.length,
    width = rows[0].counts.length;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d"),
    image = context.createImageData(width, height);
  const most = Math.log1p(rows.reduce((most, row) => Math.max(most, ...row.counts), 0)) || 1;
  rows.forEach((row, at) =>
    row.counts.forEach((value, column) => {
      const part = Math.log1p(value) / most,
        place = ((height - 1 - at) * width + column) * 4;
      const mix = (one, other, share, index) => one[index] + (other[index] - one[index]) * share;
      for (let index = 0; index < 3; index += 1) {
        image.data[place + index] = value === 0 ? none[index] : mix(some, all, part, index);
      }
      image.data[place + 3] = 255;
    }),
  );
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

function heatMap(chart, view) {
  const { rows, first, width } = chart,
    count = rows.length,
    spec = axes(chart, view);
  const columns = rows[0].counts.length,
    images = Object.entries(heatColours).map(([scheme, colours]) => [scheme, heatImage(rows, colours)]);
  const row = (part) => rows[count - 1 - Math.min(Math.max(Math.floor(part * count), 0), count - 1)];
  return {
    ...spec,
    height: Math.min(320, 70 + count * 16),
    rows: count,
    stops: rows[0].counts.map((_, at) => first + (at + 0.5) * width),
    yText: null,
    left: 12 + LETTER * rows.reduce((most, row) => Math.max(most, row.label.length), 0),
    draw(content, x, y, frame) {
      const left = x(first),
        high = frame.bottom - frame.top;
      const place = { x: left, y: frame.top, width: x(first + columns * width) - left, height: high };
      const drawn = { preserveAspectRatio: "none", "image-rendering": "pixelated" };
      for (const [scheme, href] of images) {
        content.append(node("image", { class: `heat ${scheme}`, href, ...place, ...drawn }));
      }
      const step = Math.max(1, Math.ceil(count / Math.min(12, Math.floor(high / 14))));
      for (let at = 0; at < count; at += step) {
        const middle = frame.bottom - ((at + 0.5) / count) * high + 4;
        frame.svg.append(node("text", { x: frame.left - 6, y: middle, "text-anchor": "end" }, rows[at].label));
      }
    },
    read(at, part) {
      const found = row(part),
        value = found.counts[Math.floor((at - first) / width)] || 0;
      return `${spec.xText(at)}, ${found.name}: ${counted(value, "access")}`;
    },
  };
}
