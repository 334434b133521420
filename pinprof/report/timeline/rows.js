// What can be seen of a lane, with running sums: what a block of many events holds is the difference of two of them,
// so that a frame takes time for each pixel and not for each event.

const sumsOf = (count, value) => {
  const sums = new Float64Array(count + 1);
  for (let at = 0, sum = 0; at < count; at++) sums[at + 1] = sum += value(at);
  return sums;
};

// The first place from `from` on in a sorted column whose value is at least the given one; it is mostly near.
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

// Time by kind: of a block that was merged in the page, its own shares.
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
    this.found = undefined;
  }

  placeOf(at) {
    return this.places ? this.places[at] : at;
  }

  // Takes what was searched for: a flag for each event of the lane, or nothing.
  light(flags) {
    this.found = flags && sumsOf(this.size, (at) => flags[this.placeOf(at)]);
  }

  holdsFound(first, next) {
    return this.found === undefined || this.found[next] > this.found[first];
  }

  // Calls visit(first, next) for each thing that is drawn: an event, or those that are narrower than a pixel and begin
  // in the same one. Pixels are counted from time 0, so that blocks stay as they are while the view moves.
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

  // What is drawn at a time, as firstAndNext, if anything; what is narrow is widened as far as the next.
  find(time, pixel) {
    let found;
    this.walk(time - (LEAST + 2) * pixel, time + pixel, pixel, (first, next) => {
      if (this.start[first] <= time && time < this.rightOf(first, next, pixel)) found = [first, next];
    });
    return found;
  }

  // Where the drawing of events ends: LEAST pixels wide at least, if there is room before the next.
  rightOf(first, next, pixel) {
    const least = this.start[first] + LEAST * pixel;
    const free = next < this.size ? Math.max(this.start[next], this.end[next - 1]) : Infinity;
    return Math.max(this.end[next - 1], Math.min(least, free));
  }
}
