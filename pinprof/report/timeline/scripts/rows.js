// The rows of the drawing. A cell is one event or a block of events with its sums. Running sums over a row give the
// contents of a block, so that the time of a frame grows with its pixels and not with its events.

const LEAST = 2; // pixels of the narrowest rectangle, so that people can see and hit it

// Adds the times of an event of the overlap band by kind; merged blocks bring a time for each kind.
const addShares = (times, lane, at, busy) => {
  const shares = lane.shares ?? [[lane.kind[at], undefined]];
  for (const [kind, column] of shares) {
    const time = column ? column[at] : busy;
    if (time) times[kind] = (times[kind] ?? 0) + time;
  }
  return times;
};

const cellOfEvent = (lane, at) => {
  const cell = { lane, first: at, last: at, longest: at, kind: lane.kind[at], count: lane.count ? lane.count[at] : 1 };
  cell.start = lane.start[at];
  cell.end = lane.end[at];
  cell.busy = lane.busy ? lane.busy[at] : cell.end - cell.start;
  cell.most = cell.end - cell.start;
  if (lane.source === "overlap") cell.times = addShares({}, lane, at, cell.busy);
  return cell;
};

// Returns the cell of some events of a row; its kind is the one with the most time.
const cellOfBlock = (row, first, next) => {
  const { lane } = row;
  const cell = cellOfEvent(lane, row.placeOf(first));
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

const sumsOf = (count, value) => {
  const sums = new Float64Array(count + 1);
  for (let at = 0, sum = 0; at < count; at++) sums[at + 1] = sum += value(at);
  return sums;
};

// The first place from `from` on in a sorted column whose value is at least the given one; gallops, as it is mostly near.
const firstFrom = (column, value, from, size) => {
  let reach = 1;
  while (from + reach < size && column[from + reach] < value) reach *= 2;
  let low = from + (reach >> 1);
  let high = Math.min(from + reach, size);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
};

// Running sums of time for each kind; merged blocks bring a time for each kind.
const kindSums = (lane, place, size, busy) => {
  if (lane.isPlain && !lane.shares) return [];
  if (lane.shares) return lane.shares.map(([kind, column]) => [kind, sumsOf(size, (at) => column[place(at)])]);
  const kinds = [...new Set(lane.kind)];
  return kinds.map((kind) => [kind, sumsOf(size, (at) => (lane.kind[place(at)] === kind ? busy(at) : 0))]);
};

class Row {
  constructor(lane, hidden) {
    this.lane = lane;
    const isHidden = hidden.size > 0 && lane.kind.some((kind) => hidden.has(kind));
    this.places = isHidden ? Uint32Array.from(lane.kind.keys()).filter((at) => !hidden.has(lane.kind[at])) : undefined;
    this.size = this.places ? this.places.length : lane.size;
    this.start = this.places ? Float64Array.from(this.places, (at) => lane.start[at]) : lane.start;
    this.end = this.places ? Float64Array.from(this.places, (at) => lane.end[at]) : lane.end;
    const place = (at) => this.placeOf(at);
    const busy = (at) => (lane.busy ? lane.busy[place(at)] : this.end[at] - this.start[at]);
    this.busy = sumsOf(this.size, busy);
    this.kinds = kindSums(lane, place, this.size, busy).filter(([kind]) => !hidden.has(kind));
    if (lane.source === "overlap") this.kinds.sort(([one], [other]) => other - one); // idle time, the first kind, on top
    this.matches = undefined; // running sums of matches, while somebody searches
  }

  placeOf(at) {
    return this.places ? this.places[at] : at;
  }

  // Takes the matches of a search: a flag for each event of the lane, or undefined where nobody searches.
  light(flags) {
    this.matches = flags && sumsOf(this.size, (at) => flags[this.placeOf(at)]);
  }

  isLit(first, next) {
    return this.matches === undefined || this.matches[next] > this.matches[first];
  }

  // Calls visit(first, next) for each rectangle: one event, or all that are narrower than a pixel and begin in the same
  // one. Pixels count from time 0, so that blocks stay the same while the view moves.
  walk(from, to, pixel, visit) {
    const { start, end, size } = this;
    let at = firstAbove(end, from);
    while (at < size && start[at] < to) {
      let next = at + 1;
      if (end[at] - start[at] < pixel) {
        next = firstFrom(start, (Math.floor(start[at] / pixel) + 1) * pixel, at, size);
        if (next <= at) next = at + 1;
        if (next - at > 1 && end[next - 1] - start[next - 1] >= pixel) next -= 1;
      }
      visit(at, next);
      at = next;
    }
  }

  // Returns [first, next] of the rectangle at a time, undefined if there is none; narrow ones are drawn wider.
  find(time, pixel) {
    let rectangle;
    this.walk(time - (LEAST + 2) * pixel, time + pixel, pixel, (first, next) => {
      if (this.start[first] <= time && time < this.rightOf(first, next, pixel)) rectangle = [first, next];
    });
    return rectangle;
  }

  // The right end of a rectangle: it is at least LEAST pixels wide, if there is room before the next.
  rightOf(first, next, pixel) {
    const least = this.start[first] + LEAST * pixel;
    const free = next < this.size ? Math.max(this.start[next], this.end[next - 1]) : Infinity;
    return Math.max(this.end[next - 1], Math.min(least, free));
  }
}
