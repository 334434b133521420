// What was searched for or is to be seen among all else: it lights up, and one can go from one to the next.

const flagged = (lane, isFound) => {
  const flags = new Uint8Array(lane.size);
  for (let at = 0; at < lane.size; at++) if (isFound(lane, at)) flags[at] = 1;
  return flags;
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
    this.matches = undefined;
    this.place = -1;
    this.count = 0;
    for (const flags of this.flags?.values() ?? []) for (let at = 0; at < flags.length; at++) this.count += flags[at];
    for (const [lane, row] of timeline.rows) row.light(this.flags?.get(lane));
    timeline.version += 1;
    timeline.root.querySelector(".found-next").hidden = !isFound;
    const found = this.count ? `${counted(this.count)} found` : "not found";
    timeline.root.querySelector(".found").textContent = isFound ? found : "";
    return timeline.draw();
  }

  // All that was found, in order of time.
  inOrder() {
    if (this.matches) return this.matches;
    const matches = [];
    for (const [lane, flags] of this.flags ?? []) {
      for (let at = 0; at < flags.length; at++) if (flags[at]) matches.push({ lane, at });
    }
    this.matches = matches.sort((one, other) => one.lane.start[one.at] - other.lane.start[other.at]);
    return this.matches;
  }

  // Goes to the next event that was found, or back; the first time to the first one in the view, or the last before it.
  next(place, by = 1) {
    const { timeline } = this;
    const matches = this.inOrder();
    if (!matches.length) return undefined;
    const first = Math.max(matches.findIndex(({ lane, at }) => lane.start[at] >= timeline.view[0]), 0);
    const last = this.place < 0 ? first - (by > 0 ? by : 0) : this.place;
    this.place = place ?? (last + by + matches.length) % matches.length;
    const { lane, at } = matches[this.place];
    timeline.root.querySelector(".found").textContent = `${counted(this.place + 1)} of ${counted(matches.length)}`;
    return timeline.goTo(lane, at);
  }
}
