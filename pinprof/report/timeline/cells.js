// Chooses what to draw of a lane in a view: events, and blocks of those that are narrower than a pixel.

const LEAST = 2; // pixels; so much of a rectangle can be seen and pointed at
const MARGIN = 0.1; // of the view, drawn on both sides for those who pan

// Adds the times of an event of the overlap band by kind; a block that was merged in the page brings its own.
const addShares = (times, lane, at, busy) => {
  const shares = lane.shares ?? [[lane.kind[at], undefined]];
  for (const [kind, column] of shares) {
    const time = column ? column[at] : busy;
    if (time) times[kind] = (times[kind] ?? 0) + time;
  }
  return times;
};

const newCell = (lane, at) => {
  const cell = { lane, first: at, last: at, longest: at, kind: lane.kind[at], count: lane.count ? lane.count[at] : 1 };
  cell.start = lane.start[at];
  cell.end = lane.end[at];
  cell.busy = lane.busy ? lane.busy[at] : cell.end - cell.start;
  cell.most = cell.end - cell.start;
  cell.found = false;
  if (lane.source === "overlap") cell.times = addShares({}, lane, at, cell.busy);
  return cell;
};

// Which kind takes most of the time of a block: sums by kind that begin anew with each block.
class Tally {
  constructor(kinds) {
    this.time = new Float64Array(kinds);
    this.block = new Uint32Array(kinds);
    this.number = 0;
  }

  begin(kind, time) {
    this.number += 1;
    this.best = kind;
    this.add(kind, time);
  }

  add(kind, time) {
    if (this.block[kind] !== this.number) {
      this.block[kind] = this.number;
      this.time[kind] = 0;
    }
    this.time[kind] += time;
    if (this.time[kind] > this.time[this.best]) this.best = kind;
    return this.best;
  }
}

const join = (cell, lane, at, length, tally) => {
  const busy = lane.busy ? lane.busy[at] : length;
  cell.last = at;
  if (lane.end[at] > cell.end) cell.end = lane.end[at];
  cell.count += lane.count ? lane.count[at] : 1;
  cell.busy += busy;
  if (length > cell.most) [cell.most, cell.longest] = [length, at];
  if (!lane.isPlain) cell.kind = tally.add(lane.kind[at], busy);
  if (cell.times) addShares(cell.times, lane, at, busy);
};

// The cells of a lane from `from` to `to` (ns); what is shorter than `pixel` ns and begins within it becomes one.
const cellsOf = (lane, from, to, pixel, hidden, isFound) => {
  const cells = [];
  const tally = new Tally(256);
  let open;
  for (let at = firstAbove(lane.end, from); at < lane.size && lane.start[at] < to; at++) {
    if (hidden.has(lane.kind[at])) continue;
    const length = lane.end[at] - lane.start[at];
    if (open && length < pixel && lane.start[at] < open.start + pixel) join(open, lane, at, length, tally);
    else {
      const cell = newCell(lane, at);
      cells.push(cell);
      open = length < pixel ? cell : undefined;
      if (open) tally.begin(cell.kind, cell.busy);
    }
    if (isFound && isFound(lane, at)) cells[cells.length - 1].found = true;
  }
  return cells;
};

// Where each cell is drawn: what is narrower than can be seen is widened, as far as the next one.
const edgesOf = (cells, least) => {
  const edges = new Float64Array(2 * cells.length);
  for (let at = 0; at < cells.length; at++) {
    const next = at + 1 < cells.length ? cells[at + 1].start : Infinity;
    const { start, end } = cells[at];
    edges[2 * at] = start;
    edges[2 * at + 1] = Math.max(start, Math.min(Math.max(end, start + least), next));
  }
  return edges;
};

// The cell of sorted ones that is drawn at a time.
const cellAt = (drawn, time) => {
  const place = firstAbove(drawn.edges, time);
  return place % 2 ? drawn.cells[(place - 1) / 2] : undefined;
};

// A test of events by what was searched for: part of a name, of what a kind is called, or of a step's name.
const searched = (data, text) => {
  const wanted = text.toLowerCase();
  const holds = (one) => one.toLowerCase().includes(wanted);
  const names = Uint8Array.from(data.names, holds);
  const steps = Uint8Array.from(data.steps.names, holds);
  const kinds = new Uint8Array(256);
  for (const [kind, { label }] of Object.entries(data.kinds)) kinds[kind] = holds(label);
  return (lane, at) => {
    if (lane.source === "overlap") return false;
    if (lane.source === "steps") return steps[lane.step[at]] === 1;
    return names[lane.name[at]] === 1 || kinds[lane.kind[at]] === 1;
  };
};

// A test of events by a list of them: [{ lane, at }], a lane being one of the data's or its number.
const oneOf = (data, list) => {
  const places = new Map();
  for (const { lane, at } of list) {
    const one = typeof lane === "number" ? data.lanes[lane] : lane;
    if (!places.has(one)) places.set(one, new Set());
    places.get(one).add(at);
  }
  return (lane, at) => places.get(lane)?.has(at) ?? false;
};
