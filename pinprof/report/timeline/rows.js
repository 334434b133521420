// What is drawn of a lane: cells, each an event or a block of them with its sums, and what is said of it. Running sums over
// a row give what a block of many events holds, so that a frame takes time for each pixel and not for each event.

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

// What was searched for or is to be seen among all else: it lights up, and one can go from one to the next.

const flagged = (lane, isFound) => {
  const flags = new Uint8Array(lane.size);
  for (let at = 0; at < lane.size; at++) if (isFound(lane, at)) flags[at] = 1;
  return flags;
};

const RANKS = ["stalls", "gpu", "ops", "calls", "annotations", "steps"]; // what is gone to first; frames come last
const LISTED = 8; // names of what was found

const rankOf = ({ source }) => (RANKS.includes(source) ? RANKS.indexOf(source) : RANKS.length);

// What was found, by name, in the order of ranks, then the longest time first: [name, { count, time, longest }].
const byName = (matches) => {
  const sums = new Map();
  for (const match of matches) {
    const { timeline, lane, at } = match;
    const [name, length] = [nameOf(timeline.data, { lane, first: at }), lane.end[at] - lane.start[at]];
    const sum = sums.get(name) ?? { rank: rankOf(lane), count: 0, time: 0, longest: match, most: -1 };
    sums.set(name, sum);
    sum.count += 1;
    sum.time += length;
    if (length > sum.most) [sum.longest, sum.most] = [match, length];
  }
  return [...sums].sort(([, one], [, other]) => one.rank - other.rank || other.time - one.time);
};

class Finder {
  constructor(timeline) {
    this.timeline = timeline;
    this.flags = undefined; // by lane, one for each event
    this.count = 0;
    this.place = -1;
  }

  search(text) {
    return this.light(text ? searched(this.timeline.data, text) : undefined);
  }

  // Lights up the events of a test; without one, all.
  light(isFound) {
    const { timeline } = this;
    const { lanes } = timeline.data;
    this.flags = isFound && new Map(lanes.map((lane) => [lane, flagged(lane, isFound)]));
    this.place = -1;
    this.count = 0;
    this.kept = undefined;
    for (const flags of this.flags?.values() ?? []) for (let at = 0; at < flags.length; at++) this.count += flags[at];
    for (const [lane, row] of timeline.rows) row.light(this.flags?.get(lane));
    timeline.version += 1;
    this.tell();
    return timeline.draw();
  }

  // Says how much was found in all timelines that share the view.
  tell() {
    const { root } = drawnLead(this.timeline);
    const finders = drawnWith(this.timeline).map(({ finder }) => finder);
    for (const { timeline } of finders) timeline.finder.ordered = undefined;
    const count = (finders.length ? finders : [this]).reduce((sum, finder) => sum + finder.count, 0);
    root.querySelector(".found-next").hidden = !this.flags;
    this.list(root.querySelector(".matches"), finders);
    root.querySelector(".found").textContent = this.flags ? (count ? `${counted(count)} found` : "not found") : "";
  }

  // Lists what was found anew, after the view has changed.
  listAgain() {
    const lead = drawnLead(this.timeline);
    if (this.flags && lead === this.timeline) this.list(lead.root.querySelector(".matches"), drawnWith(lead).map(({ finder }) => finder));
  }

  // Lists by name what was found in view, or else in all; each name is a button that goes to its longest event.
  list(list, finders) {
    const [from, to] = this.timeline.view;
    const all = this.flags ? finders.flatMap(({ matches }) => matches) : [];
    const seen = all.filter(({ lane, at }) => lane.start[at] < to && lane.end[at] > from);
    const names = byName(seen.length ? seen : all);
    const where = seen.length && seen.length < all.length ? [newElement("li", "", "in view:")] : [];
    list.replaceChildren(...where, ...names.slice(0, LISTED).map(([name, { count, time, longest }]) => {
      const item = newElement("li", "");
      item.append(pressable(name, () => longest.timeline.goTo(longest.lane, longest.at)), ` ${counted(count)}, ${duration(time)}`);
      return item;
    }));
    if (names.length > LISTED) list.append(newElement("li", "", `and ${counted(names.length - LISTED)} more names`));
  }

  get matches() {
    if (this.kept) return this.kept;
    this.kept = [];
    for (const [lane, flags] of this.flags ?? []) {
      for (let at = 0; at < flags.length; at++) if (flags[at]) this.kept.push({ timeline: this.timeline, lane, at });
    }
    return this.kept;
  }

  // What was found in timelines that are seen, first what is within the view: stalls, GPU work and ops before what is
  // around them, each in order of time.
  inOrder() {
    if (this.ordered) return this.ordered;
    const [from, to] = this.timeline.view;
    const isOutside = ({ lane, at }) => Number(lane.start[at] < from || lane.end[at] > to);
    const all = seenWith(this.timeline).flatMap(({ finder }) => finder.matches);
    this.ordered = all.sort((one, other) =>
      isOutside(one) - isOutside(other) || rankOf(one.lane) - rankOf(other.lane) ||
      one.lane.start[one.at] - other.lane.start[other.at]);
    return this.ordered;
  }

  // Goes to the next event that was found, or back.
  next(place, by = 1) {
    const lead = drawnLead(this.timeline);
    if (lead !== this.timeline) return lead.finder.next(place, by);
    const { timeline } = this;
    const matches = this.inOrder();
    if (!matches.length) return undefined;
    const last = this.place < 0 && by > 0 ? -by : this.place;
    this.place = place ?? (last + by + matches.length) % matches.length;
    const { timeline: its, lane, at } = matches[this.place];
    timeline.root.querySelector(".found").textContent = `${counted(this.place + 1)} of ${counted(matches.length)}`;
    return its.goTo(lane, at);
  }
}
