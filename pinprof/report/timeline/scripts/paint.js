// Paints lanes on a canvas. A block of events that are narrower than a pixel is as high as its share of busy time.

const LABEL_MIN = 30; // pixels; narrower rectangles have no label
const LABEL_PADDING = 4; // pixels
const LOW = 3; // pixels of the lowest rectangle
const COLUMN = 3; // pixels of a column of shares
const GAP_FROM = 6; // pixels; wider rectangles leave one free, to separate neighbours
const THEME = ["text", "muted", "line", "card", "link", "sans"]; // as the page's style names its colours

const themeOf = (isPaper) => {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${isPaper && name !== "sans" ? "paper-" : ""}${name}`).trim();
  const isDark = !isPaper && matchMedia("(prefers-color-scheme: dark)").matches;
  return { isDark, ...Object.fromEntries(THEME.map((name) => [name, colour(name)])) };
};

// The kinds with their colours on a dark page.
const kindsInTheDark = (data) => {
  data.kindsInTheDark ??= Object.fromEntries(
    Object.entries(data.kinds).map(([code, kind]) => [code, { ...kind, ...kind.dark }]),
  );
  return data.kindsInTheDark;
};

// Fills rectangles of whole pixels; neighbours that look alike become one.
class Brush {
  constructor(context) {
    this.context = context;
    this.colour = undefined;
    this.right = -1;
  }

  fill(colour, left, top, width, height) {
    if (colour === this.colour && left === this.right && top === this.top && height === this.height) {
      this.right = left + width;
      return;
    }
    this.flush();
    [this.colour, this.left, this.right, this.top, this.height] = [colour, left, left + width, top, height];
  }

  flush() {
    if (this.colour === undefined) return;
    this.context.fillStyle = this.colour;
    this.context.fillRect(this.left, this.top, this.right - this.left, this.height);
    this.colour = undefined;
  }
}

const HATCH = 6; // pixels from line to line
const STRIPES = { 135: [0, 1, 1, 0], 45: [0, 0, 1, 1], 90: [0.5, 0, 0.5, 1], 0: [0, 0.5, 1, 0.5] }; // by direction, in a tile
const PATTERNS = new Map();

// The hatching of kinds with similar colours, for grey prints and the colour-blind.
const patternOf = (context, { pattern, ink }, ratio) => {
  const key = pattern + ink + ratio;
  if (!PATTERNS.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = HATCH * ratio;
    const pen = tile.getContext("2d");
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.35;
    pen.lineWidth = ratio;
    const [x0, y0, x1, y1] = STRIPES[HATCHES[pattern]].map((part) => part * HATCH * ratio);
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
    PATTERNS.set(key, context.createPattern(tile, "repeat"));
  }
  return PATTERNS.get(key);
};

const toneOf = (kind, lane, at, isLit) => {
  if (!isLit) return kind.faded;
  return kind.shades[kind.byName && lane.name ? lane.name[at] % kind.shades.length : 0];
};

// Paints a window of time: its width in pixels, and `ratio` device pixels for each.
class Painter {
  constructor(data, context, { view, width, ratio, isDark }) {
    Object.assign(this, { context, view, width, ratio });
    this.kinds = isDark ? kindsInTheDark(data) : data.kinds;
    this.pixel = (view[1] - view[0]) / width;
    this.scale = (width * ratio) / (view[1] - view[0]);
    this.brush = new Brush(context);
    this.hatched = []; // [kind, left, top, width, height]
  }

  x(time) {
    const shown = Math.min(Math.max(time, this.view[0]), this.view[1]);
    return Math.round((shown - this.view[0]) * this.scale);
  }

  // Paints a row at a height; calls label(place, left, right, isLit) for rectangles wide enough for a label.
  row(row, top, height, label) {
    const [from, to] = this.view;
    const [y, full] = [Math.round(top * this.ratio), Math.round(height * this.ratio)];
    const isBand = row.lane.source === "overlap" && !row.matches && row.kinds.length > 0;
    const walk = isBand ? this.band(row, y, full) : (visit) => row.walk(from - 2 * this.pixel, to, this.pixel, visit);
    walk((first, next) => {
      const left = this.x(row.start[first]);
      const right = Math.max(this.x(row.rightOf(first, next, this.pixel)), left + 1);
      const isLit = row.isLit(first, next);
      const busy = row.busy[next] - row.busy[first];
      const span = Math.max(row.end[next - 1] - row.start[first], next - first > 1 ? this.pixel : 0);
      this.cell(row, first, next, { left, right, y, full, isLit, share: span > 0 ? Math.min(busy / span, 1) : 1 });
      if (label && right - left >= LABEL_MIN * this.ratio) label(row.placeOf(first), left, right, isLit);
    });
    this.brush.flush();
    for (const [kind, ...shape] of this.hatched.splice(0)) {
      this.context.fillStyle = patternOf(this.context, kind, this.ratio);
      this.context.fillRect(...shape);
    }
  }

  // Paints the narrow parts of the band of a GPU: each column shows their shares of its time, as a least width would hide
  // what is idle. Returns what visits the wide parts.
  band(row, y, full) {
    const [from, to] = this.view;
    const cell = COLUMN * this.pixel;
    const wide = [];
    const isWide = (at) => !row.lane.shares && row.end[at] - row.start[at] >= 2 * cell;
    let at = firstAbove(row.end, from);
    while (at < row.size && row.start[at] < to) {
      let next = at + 1;
      if (isWide(at)) wide.push(at);
      else {
        while (next < row.size && row.start[next] < to && !isWide(next)) next += 1;
        this.columns(row, [Math.max(row.start[at], from), Math.min(row.end[next - 1], to)], cell, y, full);
      }
      at = next;
    }
    return (visit) => wide.forEach((one) => visit(one, one + 1));
  }

  columns(row, [from, to], cell, y, full) {
    const sumsAt = (time) => {
      const at = firstAbove(row.end, time);
      const part = at < row.size ? Math.max(time - row.start[at], 0) / (row.end[at] - row.start[at] || 1) : 0;
      return row.kinds.map(([, sums]) => sums[at] + part * ((sums[at + 1] ?? sums[at]) - sums[at]));
    };
    for (let start = from, before = sumsAt(from); start < to; ) {
      const end = Math.min((Math.floor(start / cell + 1e-6) + 1) * cell, to);
      const after = sumsAt(end);
      const [left, right] = [this.x(start), this.x(end)];
      let [reach, sum] = [0, 0];
      row.kinds.forEach(([kind], number) => {
        sum += after[number] - before[number];
        const high = Math.min(Math.round((full * sum) / (end - start)), full);
        if (right > left && high > reach) this.brush.fill(this.kinds[kind].shades[0], left, y + full - high, right - left, high - reach);
        reach = Math.max(reach, high);
      });
      [start, before] = [end, after];
    }
  }

  // Paints memory over time: what is allocated as an area, above it what is reserved, and how much the most of it is.
  area(row, top, height, theme) {
    const { lane } = row;
    const { context, ratio } = this;
    if (!row.size) return;
    lane.most ??= lane.allocated.reduce((one, other) => Math.max(one, other), 1);
    lane.scale ??= lane.reserved.reduce((one, other) => Math.max(one, other - 1), lane.most);
    const [ceiling, bottom] = [top * ratio, (top + height) * ratio];
    const [reserved, allocated] = [this.outline(row, lane.reserved, 1), this.outline(row, lane.allocated, 0)];
    const { shades, faded } = this.kinds[lane.kind[0]];
    const path = (outline) => {
      context.beginPath();
      for (const [x, value] of outline) context.lineTo(x, bottom - ((bottom - ceiling) * value) / lane.scale);
    };
    const area = (outline, colour) => {
      path([[outline[0]?.[0], 0], ...outline, [outline.at(-1)?.[0], 0]]);
      context.fillStyle = colour;
      context.fill();
    };
    area(reserved, faded);
    context.globalAlpha = 0.4;
    area(allocated, shades[0]);
    context.globalAlpha = 1;
    path(allocated);
    context.strokeStyle = shades[0];
    context.lineWidth = 1.5 * ratio;
    context.stroke();
    context.fillStyle = theme.text;
    context.fillText(`peak ${size(lane.most)}`, LABEL_PADDING * ratio, bottom - 8 * ratio);
  }

  // The highest value of each pixel of a row, as points from the left: [x, value]; `more` is how much its column has more.
  outline(row, column, more) {
    const points = [];
    row.walk(...this.view, this.pixel, (first, next) => {
      let most = 0;
      for (let one = first; one < next; one++) most = Math.max(most, column[row.placeOf(one)] - more);
      points.push([this.x(row.start[first]), most], [this.x(row.end[next - 1]), most]);
    });
    return points;
  }

  cell(row, first, next, { left, right, y, full, isLit, share }) {
    const wide = right - left >= GAP_FROM * this.ratio && row.lane.source !== "overlap" ? 1 : 0;
    const isAlone = next - first === 1 && !row.lane.shares;
    const least = isLit && row.matches ? full : Math.min(LOW * this.ratio, full);
    const high = Math.max(Math.round(full * share), least);
    if (isAlone || row.kinds.length < 2) {
      const at = row.placeOf(first);
      const kind = this.kinds[row.lane.kind[at]];
      const colour = isAlone || !isLit ? toneOf(kind, row.lane, at, isLit) : kind.shades[0];
      const shape = [left, y + full - high, right - left - wide, high];
      this.brush.fill(colour, ...shape);
      if (kind.pattern && isLit && shape[2] >= HATCH * this.ratio) this.hatched.push([kind, ...shape]);
    } else this.stack(row, first, next, { left, width: right - left - wide, bottom: y + full, high, isLit });
  }

  // The kinds of a block above each other, by their shares of its time.
  stack(row, first, next, { left, width, bottom, high, isLit }) {
    const all = row.busy[next] - row.busy[first];
    let [below, sum] = [0, 0];
    for (const [kind, sums] of row.kinds) {
      const time = sums[next] - sums[first];
      if (time <= 0) continue;
      sum += time;
      const reach = all > 0 ? Math.min(Math.round((high * sum) / all), high) : high;
      if (reach > below) {
        const { shades, faded } = this.kinds[kind];
        this.brush.fill(isLit ? shades[0] : faded, left, bottom - reach, width, reach - below);
      }
      below = Math.max(below, reach);
    }
  }
}

const TEXT_WIDTHS = new Map();

const widthOf = (context, text) => {
  let width = TEXT_WIDTHS.get(text);
  if (width === undefined) {
    if (TEXT_WIDTHS.size > 20_000) TEXT_WIDTHS.clear();
    TEXT_WIDTHS.set(text, (width = context.measureText(text).width));
  }
  return width;
};

// As much of a text as there is room for.
const fitted = (context, text, room) => {
  if (widthOf(context, text) <= room) return text;
  for (let kept = Math.floor((text.length * room) / widthOf(context, text)); kept > 1; kept--) {
    const cut = `${text.slice(0, kept)}…`;
    if (widthOf(context, cut) <= room) return cut;
  }
  return "";
};
