// Finds events by text or by a list, lights them up, and goes from one to the next.

// Returns a test of events: whether their name, the label of their kind or the name of their step holds a text.
const holdsText = (data, text) => {
  const wanted = text.toLowerCase();
  const holds = (one) => one.toLowerCase().includes(wanted);
  const names = Uint8Array.from(data.names, holds);
  const steps = Uint8Array.from(data.steps.names, holds);
  const kinds = new Uint8Array(256);
  for (const [kind, { label }] of Object.entries(data.kinds)) kinds[kind] = holds(label);
  return (lane, at) => {
    if (MEASURES.has(lane.source)) return false;
    if (lane.source === "steps") return steps[lane.step[at]] === 1;
    return names[lane.name[at]] === 1 || kinds[lane.kind[at]] === 1;
  };
};

// Returns a test of events: whether a list [{ lane, at }] has them; `lane` is a lane or its number.
const isListed = (data, list) => {
  const places = new Map();
  for (const { lane, at } of list) {
    const one = typeof lane === "number" ? data.lanes[lane] : lane;
    if (!places.has(one)) places.set(one, new Set());
    places.get(one).add(at);
  }
  return (lane, at) => places.get(lane)?.has(at) ?? false;
};

const flagged = (lane, isFound) => {
  const flags = new Uint8Array(lane.size);
  for (let at = 0; at < lane.size; at++) if (isFound(lane, at)) flags[at] = 1;
  return flags;
};

const SEARCH_ORDER = ["stalls", "gpu", "ops", "calls", "annotations", "steps"]; // sources; frames come last
const LISTED = 8; // names in the list of matches

const rankOf = ({ source }) => (SEARCH_ORDER.includes(source) ? SEARCH_ORDER.indexOf(source) : SEARCH_ORDER.length);

// Returns the matches by name, in the order of sources, then by time: [name, { count, time, longest }].
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
    return this.light(text ? holdsText(this.timeline.data, text) : undefined);
  }

  // Lights up the events that pass a test; without a test, all.
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
    this.writeCount();
    return timeline.draw();
  }

  // Writes how many events all timelines that share the view found, and lists them.
  writeCount() {
    const { root } = leadTimeline(this.timeline);
    const finders = drawnWith(this.timeline).map(({ finder }) => finder);
    for (const { timeline } of finders) timeline.finder.order = undefined;
    const count = (finders.length ? finders : [this]).reduce((sum, finder) => sum + finder.count, 0);
    root.querySelector(".found-next").hidden = !this.flags;
    this.list(root.querySelector(".matches"), finders);
    root.querySelector(".found").textContent = this.flags ? (count ? `${counted(count)} found` : "not found") : "";
  }

  // Lists the matches again after the view has changed.
  listAgain() {
    const lead = leadTimeline(this.timeline);
    if (this.flags && lead === this.timeline) this.list(lead.root.querySelector(".matches"), drawnWith(lead).map(({ finder }) => finder));
  }

  // Lists by name the matches in view, or all if none is; each name is a button that goes to its longest event.
  list(list, finders) {
    const [from, to] = this.timeline.view;
    const all = this.flags ? finders.flatMap(({ matches }) => matches) : [];
    const seen = all.filter(({ lane, at }) => lane.start[at] < to && lane.end[at] > from);
    const names = byName(seen.length ? seen : all);
    const where = seen.length && seen.length < all.length ? [newElement("li", "", "in view:")] : [];
    list.replaceChildren(...where, ...names.slice(0, LISTED).map(([name, { count, time, longest }]) => {
      const item = newElement("li", "");
      item.append(newButton(name, () => longest.timeline.goTo(longest.lane, longest.at)), ` ${counted(count)}, ${duration(time)}`);
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

  // The matches in visible timelines: those within the view first, then by source (SEARCH_ORDER), then by time.
  inOrder() {
    if (this.order) return this.order;
    const [from, to] = this.timeline.view;
    const isOutside = ({ lane, at }) => Number(lane.start[at] < from || lane.end[at] > to);
    const all = seenWith(this.timeline).flatMap(({ finder }) => finder.matches);
    this.order = all.sort((one, other) =>
      isOutside(one) - isOutside(other) || rankOf(one.lane) - rankOf(other.lane) ||
      one.lane.start[one.at] - other.lane.start[other.at]);
    return this.order;
  }

  // Goes to the next match, or with -1 to the one before.
  next(place, by = 1) {
    const lead = leadTimeline(this.timeline);
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
