// Makes the plotly figure of a view: a heatmap of one row for each lane, which plotly paints as one image.

const ROW = 22; // pixels
const ROOM = { l: 92, r: 14, t: 6, b: 46 }; // pixels around the lanes
const HALF = 0.42; // height of a rectangle on each side of its lane's middle; lanes are 1 apart
const TONES = 5; // of a kind: three for neighbours of different names, one for blocks that are mostly gaps, one faded
const [SPARSE, FADED] = [3, 4];
const PARTS = 8; // of the height of the overlap band, for the shares of what is merged there
const NS_PER_MS = 1e6;
const TICK_PIXELS = 130;

const themeColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Places from the top: a heading for each group, then its lanes unless it is folded.
const layOut = (data, folded) => {
  const headings = [];
  const places = new Map();
  let place = 0;
  for (const lane of data.lanes) {
    if (headings.at(-1)?.group !== lane.group) headings.push({ group: lane.group, place: place++, lanes: 0 });
    headings.at(-1).lanes += 1;
    if (!folded.has(lane.group)) places.set(lane, place++);
  }
  return { headings, places, rows: place };
};

const coloursOf = (data) => {
  const codes = Object.keys(data.kinds).map(Number);
  const colours = codes.flatMap((kind) => data.kinds[kind].shades);
  const scale = colours.flatMap((colour, at) => [
    [at / colours.length, colour],
    [(at + 1) / colours.length, colour],
  ]);
  return { first: new Map(codes.map((kind, at) => [kind, at * TONES])), scale, top: colours.length };
};

const toneOf = (data, cell, searching) => {
  if (searching && !cell.found) return FADED;
  if (cell.count > 1 && 2 * cell.busy < cell.end - cell.start) return SPARSE;
  return data.kinds[cell.kind].byName && cell.lane.name ? cell.lane.name[cell.longest] % SPARSE : 0;
};

// The kind in each part of a cell of the overlap band, from the top: kinds take their shares of the time in order.
const partsOf = ({ kind, times, busy, count }) => {
  if (count === 1 || busy <= 0) return Array(PARTS).fill(kind);
  const parts = [];
  let sum = 0;
  for (const [one, time] of Object.entries(times)) {
    sum += time;
    while (parts.length < PARTS && (parts.length + 0.5) * busy <= sum * PARTS) parts.push(Number(one));
  }
  while (parts.length < PARTS) parts.push(kind);
  return parts;
};

const bandOf = (colours, cells, searching) => {
  const z = Array.from({ length: PARTS }, () => new Float32Array(2 * cells.length - 1).fill(NaN));
  cells.forEach((cell, at) =>
    partsOf(cell).forEach((kind, part) => (z[part][2 * at] = colours.first.get(kind) + (searching ? FADED : 0) + 0.5)),
  );
  return z;
};

const rowOf = (data, colours, { cells, edges }, place, [from, to], searching) => {
  const isBand = cells[0].times !== undefined;
  const z = isBand ? bandOf(colours, cells, searching) : [new Float32Array(2 * cells.length - 1).fill(NaN)];
  if (!isBand) {
    cells.forEach((cell, at) => (z[0][2 * at] = colours.first.get(cell.kind) + toneOf(data, cell, searching) + 0.5));
  }
  return {
    type: "heatmap",
    x: edges.map((edge) => Math.min(Math.max(edge, from), to) / NS_PER_MS),
    y: Array.from({ length: z.length + 1 }, (_, part) => place - HALF + (2 * HALF * part) / z.length),
    z,
    zmin: 0,
    zmax: colours.top,
    colorscale: colours.scale,
    showscale: false,
    hoverinfo: "skip",
  };
};

const niceStep = (least) => {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
};

// The step that times are read from: the one in which the view begins, or the next if that is about to begin.
const referenceStep = (data, [from, to]) => {
  const { start } = data.steps;
  const next = firstAbove(start, from);
  return next < start.length && (next === 0 || start[next] <= from + 0.05 * (to - from)) ? next : Math.max(next - 1, 0);
};

const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"); // for plotly

const axisOf = (data, view, width) => {
  const step = referenceStep(data, view);
  const zero = data.since ? 0 : data.steps.start[step] ?? 0;
  const [from, to] = view.map((time) => time - zero);
  const gap = niceStep(((to - from) * TICK_PIXELS) / Math.max(width, TICK_PIXELS));
  const [scale, unit] = TIMES.find(([one]) => Math.max(Math.abs(from), Math.abs(to)) >= one) ?? TIMES.at(-1);
  const digits = Math.max(0, Math.ceil(Math.log10(scale / gap) - 1e-9));
  const ticks = [];
  for (let tick = Math.ceil(from / gap) * gap; tick <= to; tick += gap) ticks.push(tick);
  return {
    range: view.map((time) => time / NS_PER_MS),
    tickvals: ticks.map((tick) => (tick + zero) / NS_PER_MS),
    ticktext: ticks.map((tick) => `${(tick / scale).toFixed(digits)} ${unit}`),
    title: { text: `since the start of ${plain(data.since ?? data.steps.names[step] ?? "the trace")}`, standoff: 6, font: { size: 12 } },
    gridcolor: themeColour("--line"),
    zeroline: false,
    tickfont: { size: 11 },
  };
};

const box = (x, y, colour, dash = "solid", fill = "rgba(0,0,0,0)") => ({
  type: "rect",
  x0: x[0] / NS_PER_MS,
  x1: x[1] / NS_PER_MS,
  y0: y[0],
  y1: y[1],
  line: { color: colour, width: 2.5, dash },
  fillcolor: fill,
});

// Marks of a finding or of what was clicked: outlines with their names, and a line from a launch to its work.
const marksOf = (marks, link, places) => {
  const ink = themeColour("--text");
  const shapes = [];
  const notes = [];
  for (const { what, lanes, start, end } of marks) {
    const ys = lanes.filter((lane) => places.has(lane)).map((lane) => places.get(lane));
    if (!ys.length) continue;
    const y = [Math.min(...ys) - 0.5, Math.max(...ys) + 0.5];
    const isBubble = what === "GPU idle after";
    shapes.push(box([start, end], y, ink, isBubble ? "dash" : "solid", isBubble ? "rgba(204,121,167,0.25)" : undefined));
    notes.push({ what, start, end, place: lanes[0].source === "gpu" && !isBubble ? y[1] + 0.45 : y[0] - 0.45 });
  }
  if (link && places.has(link.from.lane) && places.has(link.to.lane)) {
    const [x0, x1] = [link.from.lane.end[link.from.first], link.to.lane.start[link.to.first]];
    const [y0, y1] = [places.get(link.from.lane) + HALF, places.get(link.to.lane) - HALF];
    shapes.push({ ...box([x0, x1], [y0, y1], ink, "dot"), type: "line" });
  }
  return { shapes, notes };
};

const layoutOf = (data, placed, view, shapes, width) => {
  const shown = data.lanes.filter((lane) => placed.places.has(lane) && lane.label);
  return {
    height: placed.rows * ROW + ROOM.t + ROOM.b,
    margin: ROOM,
    hovermode: false,
    showlegend: false,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
    font: { family: "system-ui, sans-serif", size: 12, color: themeColour("--text") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "transparent", color: themeColour("--muted"), activecolor: themeColour("--text") },
    xaxis: axisOf(data, view, width),
    yaxis: {
      range: [placed.rows - 0.4, -0.6],
      fixedrange: true,
      tickvals: shown.map((lane) => placed.places.get(lane)),
      ticktext: shown.map((lane) => plain(lane.label)),
      showgrid: false,
      zeroline: false,
    },
    shapes,
  };
};
