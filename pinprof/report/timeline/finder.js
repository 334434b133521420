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
    this.place = -1;
    this.count = 0;
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
    for (const { timeline } of finders) timeline.finder.inTime = undefined;
    const count = (finders.length ? finders : [this]).reduce((sum, finder) => sum + finder.count, 0);
    root.querySelector(".found-next").hidden = !this.flags;
    root.querySelector(".found").textContent = this.flags ? (count ? `${counted(count)} found` : "not found") : "";
  }

  get matches() {
    const matches = [];
    for (const [lane, flags] of this.flags ?? []) {
      for (let at = 0; at < flags.length; at++) if (flags[at]) matches.push({ timeline: this.timeline, lane, at });
    }
    return matches;
  }

  // All that was found in timelines that are seen, in order of time.
  inOrder() {
    const all = () => seenWith(this.timeline).flatMap(({ finder }) => finder.matches);
    this.inTime ??= all().sort((one, other) => one.lane.start[one.at] - other.lane.start[other.at]);
    return this.inTime;
  }

  // Goes to the next event that was found, or back; the first time to the first one in the view, or the last before it.
  next(place, by = 1) {
    const lead = drawnLead(this.timeline);
    if (lead !== this.timeline) return lead.finder.next(place, by);
    const { timeline } = this;
    const matches = this.inOrder();
    if (!matches.length) return undefined;
    const first = Math.max(matches.findIndex(({ lane, at }) => lane.start[at] >= timeline.view[0]), 0);
    const last = this.place < 0 ? first - (by > 0 ? by : 0) : this.place;
    this.place = place ?? (last + by + matches.length) % matches.length;
    const { timeline: its, lane, at } = matches[this.place];
    timeline.root.querySelector(".found").textContent = `${counted(this.place + 1)} of ${counted(matches.length)}`;
    return its.goTo(lane, at);
  }
}
