// A chart: axes, the pointer, the keyboard, and zoom. What is drawn in it, and what is read out, is that of a spec:
//   title, about     text
//   extent           [first, last] of x, as it is drawn
//   view             { range }: the part of the extent that is shown; charts with the same view are zoomed together
//   xName, yName    what the axes measure
//   xTicks, xText    numbers of ticks in a range; the text of a place
//   stops            places at which the keyboard stops
//   keepsLast        whether the last label of x is always shown
//   top, yText       highest y in a range, and the text of a y; without them `draw` labels the y axis
//   left             the width of labels that `draw` adds at the y axis
//   draw             adds elements; gets the SVG's group, and functions from x and y to pixels
//   read             the text of a place
//   legend           [class, name] of each series

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 230;
const MARGIN = { left: 66, right: 12, top: 10, bottom: 24 };

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function html(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A chart is drawn into an element of the page, which has its title and what it is about.
class Chart {
  constructor(spec, element) {
    this.spec = spec;
    this.height = spec.height || HEIGHT;
    this.cursor = null;
    this.row = 0;
    this.element = element;
    this.element.prepend(this.tools());
    if (spec.legend) this.element.append(this.legend());
    const label = `${spec.title}: ${spec.yName} by ${spec.xName}. Arrow keys read values, + and - zoom, 0 shows all.`;
    this.svg = node("svg", { tabindex: 0, role: "img", "aria-label": label, height: this.height });
    this.readout = html("div", "readout");
    this.readout.setAttribute("aria-live", "polite");
    this.element.append(this.svg, this.readout);
    spec.view.charts = (spec.view.charts || []).concat(this);
    // Charts that are zoomed together begin at the same place.
    spec.view.left = Math.max(spec.view.left || MARGIN.left, spec.left || 0);
    this.listen();
  }

  tools() {
    const made = html("div", "tools");
    const button = (text, name, act) => {
      const one = html("button", "", text);
      one.type = "button";
      one.setAttribute("aria-label", `${name}: ${this.spec.title}`);
      one.addEventListener("click", act);
      made.append(one);
    };
    button("+", "zoom in", () => this.zoom(0.5));
    button("\u2212", "zoom out", () => this.zoom(2));
    button("all", "show all", () => this.show(null));
    return made;
  }

  legend() {
    const made = html("div", "legend");
    for (const [className, name] of this.spec.legend) {
      const one = html("span");
      one.append(html("i", className), name);
      made.append(one);
    }
    return made;
  }

  left() {
    return this.spec.view.left;
  }

  range() {
    return this.spec.view.range || this.spec.extent;
  }

  // Shows a part of the extent in all charts with this view.
  show(range) {
    const [first, last] = this.spec.extent;
    if (range) {
      const span = Math.min(Math.max(range[1] - range[0], (last - first) / 4096), last - first);
      const from = Math.min(Math.max(range[0], first), last - span);
      range = span >= last - first ? null : [from, from + span];
    }
    this.spec.view.range = range;
    this.spec.view.charts.forEach((chart) => chart.draw());
  }

  zoom(factor) {
    const [from, to] = this.range();
    const inside = this.cursor !== null && this.cursor >= from && this.cursor <= to;
    const middle = inside ? this.cursor : (from + to) / 2;
    this.show([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    const [from, to] = this.range();
    const part = (event.clientX - box.left - this.left()) / (this.width - this.left() - MARGIN.right);
    this.row = (event.clientY - box.top - MARGIN.top) / (this.height - MARGIN.top - MARGIN.bottom);
    return from + Math.min(Math.max(part, 0), 1) * (to - from);
  }

  listen() {
    let begin = null;
    this.svg.addEventListener("pointerdown", (event) => {
      begin = this.place(event);
    });
    this.svg.addEventListener("pointermove", (event) => {
      this.point(this.place(event), event.buttons && event.pointerType === "mouse" ? begin : null);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const end = this.place(event),
        [from, to] = this.range();
      const isWide = begin !== null && Math.abs(end - begin) > (to - from) / 100;
      if (isWide && event.pointerType === "mouse") this.show([Math.min(begin, end), Math.max(begin, end)]);
      begin = null;
    });
    this.svg.addEventListener("dblclick", () => this.show(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focus", () => {
      if (this.cursor === null) this.step(0);
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // Moves the cursor by some stops, into the range that is shown.
  step(by) {
    const [from, to] = this.range();
    const stops = this.spec.stops.filter((stop) => stop >= from && stop <= to);
    if (!stops.length) return;
    let nearest = stops.findIndex((stop) => stop >= (this.cursor === null ? from : this.cursor));
    if (nearest < 0) nearest = stops.length - 1;
    this.point(stops[Math.min(Math.max(nearest + by, 0), stops.length - 1)]);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const far = event.shiftKey ? 10 : 1,
      rows = this.spec.rows || 0;
    const acts = {
      ArrowLeft: () => this.step(-far),
      ArrowRight: () => this.step(far),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(null),
      Escape: () => this.show(null),
    };
    if (rows) {
      const turn = (by) => {
        this.row = Math.min(Math.max(this.row + (by * far) / rows, 0), 1 - 0.5 / rows);
        this.step(0);
      };
      acts.ArrowUp = () => turn(-1);
      acts.ArrowDown = () => turn(1);
    }
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  // Puts the cursor to a place, and reads it out. `begin`: where the part begins that is being chosen.
  point(at, begin) {
    this.cursor = at;
    this.readout.textContent = this.spec.read(at, this.row);
    const [from, to] = this.range();
    this.overlay.replaceChildren();
    if (at < from || at > to) return;
    const x = this.x(at),
      bottom = this.height - MARGIN.bottom;
    if (begin !== null && begin !== undefined) {
      const other = this.x(begin);
      this.overlay.append(
        node("rect", {
          class: "chosen",
          x: Math.min(x, other),
          y: MARGIN.top,
          width: Math.abs(x - other),
          height: bottom - MARGIN.top,
        }),
      );
    }
    this.overlay.append(node("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: bottom }));
    if (this.spec.rows) {
      const y = MARGIN.top + this.row * (bottom - MARGIN.top);
      this.overlay.append(
        node("line", { class: "cursor", x1: this.left(), x2: this.width - MARGIN.right, y1: y, y2: y }),
      );
    }
  }

  // Draws the chart, by default as wide as its element is.
  draw(width) {
    this.width = width || Math.max(this.svg.clientWidth, 240);
    this.drawParts();
  }

  drawParts() {
    const { spec, width, height, svg } = this,
      [from, to] = this.range();
    const left = this.left();
    const right = width - MARGIN.right,
      bottom = height - MARGIN.bottom;
    this.x = (at) => left + ((at - from) / (to - from || 1)) * (right - left);
    const top = spec.top ? spec.top(from, to) || 1 : 1;
    const y = (value) => bottom - (value / top) * (bottom - MARGIN.top);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const name = `clip-${(Chart.number = (Chart.number || 0) + 1)}`;
    const clip = node("clipPath", { id: name });
    clip.append(node("rect", { x: left, y: 0, width: right - left, height: bottom + 1 }));
    const content = node("g", { class: "content", "clip-path": `url(#${name})` });
    svg.append(clip);
    if (spec.yText) {
      for (const value of ticks(0, top, 5)) {
        svg.append(node("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
        svg.append(node("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, spec.yText(value)));
      }
    }
    svg.append(content);
    svg.append(node("path", { class: "axis", d: `M${left} ${MARGIN.top}V${bottom}H${right}` }));
    const at = spec.xTicks(from, to, Math.max(3, Math.floor((right - left) / 90)));
    const places = at.map((one) => ({ x: this.x(one), text: spec.xText(one) }));
    addLabels(svg, places, bottom + 16, width, spec.keepsLast);
    spec.draw(content, this.x, y, { top: MARGIN.top, bottom, left, right, svg, from, to });
    this.overlay = node("g");
    svg.append(this.overlay);
    if (this.cursor !== null) this.point(this.cursor);
  }
}
