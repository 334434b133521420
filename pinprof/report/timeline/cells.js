// One thing that is drawn, an event or a block of them, with its sums: what is said of it; and tests of events.

const LEAST = 2; // pixels; so much of a rectangle can be seen and pointed at

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
  if (lane.source === "overlap") cell.times = addShares({}, lane, at, cell.busy);
  return cell;
};

// The block of some events of a row; its kind is the one that takes most of its time.
const cellOf = (row, first, next) => {
  const { lane } = row;
  const cell = newCell(lane, row.placeOf(first));
  const times = new Map([[cell.kind, cell.busy]]);
  for (let one = first + 1; one < next; one++) {
    const at = row.placeOf(one);
    const length = lane.end[at] - lane.start[at];
    const busy = lane.busy ? lane.busy[at] : length;
    cell.last = at;
    cell.end = Math.max(cell.end, lane.end[at]);
    cell.count += lane.count ? lane.count[at] : 1;
    cell.busy += busy;
    if (length > cell.most) [cell.most, cell.longest] = [length, at];
    times.set(lane.kind[at], (times.get(lane.kind[at]) ?? 0) + busy);
    if (cell.times) addShares(cell.times, lane, at, busy);
  }
  for (const [kind, time] of times) if (time > times.get(cell.kind)) cell.kind = kind;
  return cell;
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
