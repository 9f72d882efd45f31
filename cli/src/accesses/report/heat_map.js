// The heat map: accesses by address and time, as an image.

// The colours of no accesses and of most, as red, green and blue.
function heatColours() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return isDark
    ? [
        [28, 33, 41],
        [60, 80, 190],
        [255, 190, 90],
      ]
    : [
        [246, 248, 250],
        [110, 160, 230],
        [120, 20, 60],
      ];
}

// The heat map as an image: a pixel for each block and slice.
function heatImage(heat) {
  const canvas = document.createElement("canvas");
  const height = heat.blocks.length,
    width = heat.blocks[0].counts.length;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d"),
    image = context.createImageData(width, height);
  const most = Math.log1p(heat.blocks.reduce((most, row) => Math.max(most, ...row.counts), 0)) || 1;
  const [none, some, all] = heatColours();
  heat.blocks.forEach((row, at) =>
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
  return { source: canvas.toDataURL(), width };
}

// Addresses over time.
function heatMap(options) {
  const { heat, view, extent } = options,
    time = timeOf(heat),
    rows = heat.blocks.length;
  let image = null;
  const first = heat.first_slice * time.scale;
  const row = (part) => heat.blocks[rows - 1 - Math.min(Math.max(Math.floor(part * rows), 0), rows - 1)];
  return {
    ...options,
    height: 320,
    rows,
    view,
    extent,
    stops: heat.blocks[0].counts.map((_, at) => first + (at + 0.5) * time.scale),
    xTicks: ticks,
    xText: time.text,
    draw(content, x, y, frame) {
      image = image || heatImage(heat);
      const left = x(first),
        right = x(first + image.width * time.scale),
        high = frame.bottom - frame.top;
      content.append(
        node("image", {
          href: image.source,
          x: left,
          y: frame.top,
          width: right - left,
          height: high,
          preserveAspectRatio: "none",
          style: "image-rendering: pixelated",
        }),
      );
      const step = Math.max(1, Math.ceil(rows / 12));
      for (let at = 0; at < rows; at += step) {
        const text = heat.blocks[at].address.replace(/^(.{3}).{5,}(.{4})$/, "$1\u2026$2");
        frame.svg.append(
          node(
            "text",
            { x: frame.left - 6, y: frame.bottom - ((at + 0.5) / rows) * high + 4, "text-anchor": "end" },
            text,
          ),
        );
      }
    },
    read(at, part) {
      const found = row(part),
        value = found.counts[Math.floor((at - first) / time.scale)] || 0;
      const block = `${bytes(heat.block_bytes)} from ${found.address} on`;
      return `${time.text(at)}, ${block}: ${counted(value, "access")}`;
    },
    recolour() {
      image = null;
    },
  };
}
